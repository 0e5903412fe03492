package jobs

import "testing"

func TestDeadlines_Move(t *testing.T) {
	var none *Deadlines
	if term, kill, moved := none.At(); term != 0 || kill != 0 || moved != nil {
		t.Errorf("At() of nil = %v, %v, %v, want nothing", term, kill, moved)
	}
	var d Deadlines
	_, _, moved := d.At()
	select {
	case <-moved:
		t.Fatal("moved before Move")
	default:
	}
	d.Move(1, 2)
	d.Move(3, 4)
	<-moved
	if term, kill, moved := d.At(); term != 3 || kill != 4 || moved == nil {
		t.Errorf("At() = %v, %v, %v, want 3, 4 and a channel", term, kill, moved)
	}
}
