package batch

import (
	"fmt"
	"strconv"
	"strings"
)

// indexes is a set of completion indexes, as ascending intervals. Jobs write it as "1,3-5,7".
type indexes []interval

type interval struct{ first, last int32 }

func (x indexes) count() int32 {
	var n int32
	for _, i := range x {
		n += i.last - i.first + 1
	}
	return n
}

// parseIndexes parses a set of indexes below completions.
func parseIndexes(text string, completions int32) (indexes, error) {
	if text == "" {
		return nil, nil
	}
	var out indexes
	for _, part := range strings.Split(text, ",") {
		i, err := parseInterval(part, completions)
		if err != nil {
			return nil, err
		}
		if n := len(out); n > 0 && out[n-1].last >= i.first {
			return nil, fmt.Errorf("%q is not after what precedes it", part)
		}
		out = append(out, i)
	}
	return out, nil
}

func parseInterval(text string, completions int32) (interval, error) {
	from, to, ranged := strings.Cut(text, "-")
	first, err := parseIndex(from, completions)
	if err != nil || !ranged {
		return interval{first, first}, err
	}
	last, err := parseIndex(to, completions)
	if err == nil && first >= last {
		err = fmt.Errorf("%q does not ascend", text)
	}
	return interval{first, last}, err
}

func parseIndex(text string, completions int32) (int32, error) {
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0, fmt.Errorf("cannot convert string to integer for index: %q", text)
	}
	if n >= int(completions) {
		return 0, fmt.Errorf("index %d is too large", n)
	}
	return int32(n), nil
}

// overlap reports whether two sets share an index. It ignores parts that do not parse, which are reported elsewhere.
func overlap(a, b string, completions int32) bool {
	if a == "" || b == "" {
		return false
	}
	for _, x := range wellFormed(a, completions) {
		for _, y := range wellFormed(b, completions) {
			if x.first <= y.last && y.first <= x.last {
				return true
			}
		}
	}
	return false
}

func wellFormed(text string, completions int32) indexes {
	var out indexes
	for _, part := range strings.Split(text, ",") {
		if i, err := parseInterval(part, completions); err == nil {
			out = append(out, i)
		}
	}
	return out
}
