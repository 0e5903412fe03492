package preview

import "math/bits"

// histogram counts durations in steps of a sixteenth of their own size, from 1 µs on, so that millions
// of them take 3 KB. What it says is at most 6 % too large.
type histogram struct {
	counts []uint32
	n      int64
	most   int64 // in ns, exactly
}

const fineBits = 4

func (h *histogram) add(ns int64) {
	ns = max(ns, 0)
	h.n++
	h.most = max(h.most, ns)
	i := bucketOf(ns / 1000)
	if i >= len(h.counts) {
		grown := make([]uint32, i+16)
		copy(grown, h.counts)
		h.counts = grown
	}
	h.counts[i]++
}

// bucketOf is the number itself below 32, else its highest five bits and how far they are shifted.
func bucketOf(us int64) int {
	shift := max(0, bits.Len64(uint64(us))-fineBits-1)
	return shift<<fineBits + int(us>>shift)
}

// topOf is the largest number of a bucket.
func topOf(bucket int) int64 {
	shift := max(0, bucket>>fineBits-1)
	return (int64(bucket-shift<<fineBits)+1)<<shift - 1
}

// quantile is what a share q of the durations do not exceed; 0 without any.
func (h *histogram) quantile(q float64) Millis {
	left := int64(q*float64(h.n)+0.9999) - 1
	for i, c := range h.counts {
		if left < int64(c) {
			if i == 0 {
				return 0
			}
			return Millis(min(topOf(i)*1000+999, h.most))
		}
		left -= int64(c)
	}
	return Millis(h.most)
}

func (h *histogram) max() Millis { return Millis(h.most) }
