package preview

import "context"

func advise(ctx context.Context, opt *Options, rep *Report, progress func(float64)) ([]Advice, error) {
	return []Advice{}, nil
}
