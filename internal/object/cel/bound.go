package cel

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/functions"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/interpreter"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
)

// The CEL library counts the cost of a call after the call, so one call may take
// any amount of memory: lists.range(100000000) took 6 GB before it was refused,
// and the results of replace and format are not counted at all. This file
// refuses calls beforehand if their cost would exceed that of one evaluation.

const (
	// maxItems is how many items a call may make or compare: an item costs at
	// least 1.
	maxItems = celconfig.PerCallLimit
	// maxText is the longest text that a call may make, in bytes: a byte costs
	// a tenth.
	maxText = 10 * celconfig.PerCallLimit
)

// predictions returns, for each function that needs a bound, a func that says
// whether a call is allowed.
func predictions() map[string]func(args []ref.Val) bool {
	return map[string]func(args []ref.Val) bool{
		"lists.range":     func(a []ref.Val) bool { n, ok := a[0].(types.Int); return !ok || n <= maxItems },
		"flatten":         fitsFlat,
		"distinct":        func(a []ref.Val) bool { return size(a[0])*size(a[0]) <= maxItems },
		"sets.contains":   func(a []ref.Val) bool { return size(a[0])*size(a[1]) <= maxItems },
		"sets.intersects": func(a []ref.Val) bool { return size(a[0])*size(a[1]) <= maxItems },
		"sets.equivalent": func(a []ref.Val) bool { return size(a[0])*size(a[1]) <= maxItems },
		"replace":         fitsReplaced,
		"join":            fitsJoined,
		"format":          fitsFormatted,
		"quantity":        fitsQuantity,
		"isQuantity":      fitsQuantity,
	}
}

// Bound returns options that bound the calls of an environment's functions.
func Bound(env *cel.Env) ([]cel.EnvOption, error) {
	var options []cel.EnvOption
	declared := env.Functions()
	for name, fits := range predictions() {
		fn := declared[name]
		if fn == nil {
			continue
		}
		bindings, err := fn.Bindings()
		if err != nil {
			return nil, err
		}
		made := map[string]*functions.Overload{}
		for _, b := range bindings {
			made[b.Operator] = b
		}
		for _, o := range fn.OverloadDecls() {
			b := made[o.ID()]
			if b == nil {
				return nil, fmt.Errorf("function %s has no binding for %s", name, o.ID())
			}
			declare := cel.Overload
			if o.IsMemberFunction() {
				declare = cel.MemberOverload
			}
			options = append(options, cel.Function(name, declare(o.ID(), o.ArgTypes(), o.ResultType(), bounded(b, fits))))
		}
	}
	return options, nil
}

// bounded returns a binding that makes a call only if its arguments fit.
func bounded(b *functions.Overload, fits func([]ref.Val) bool) cel.OverloadOpt {
	check := func(args ...ref.Val) {
		if !fits(args) {
			// The same error as when the counted cost exceeds the limit.
			panic(interpreter.EvalCancelledError{Cause: interpreter.CostLimitExceeded, Message: "operation cancelled: actual cost limit exceeded"})
		}
	}
	switch {
	case b.Unary != nil:
		return cel.UnaryBinding(func(v ref.Val) ref.Val { check(v); return b.Unary(v) })
	case b.Binary != nil:
		return cel.BinaryBinding(func(v, w ref.Val) ref.Val { check(v, w); return b.Binary(v, w) })
	}
	return cel.FunctionBinding(func(args ...ref.Val) ref.Val { check(args...); return b.Function(args...) })
}

// size returns the size of a list, 0 for other values.
func size(v ref.Val) int64 {
	if l, ok := v.(traits.Lister); ok {
		if n, ok := l.Size().(types.Int); ok {
			return int64(n)
		}
	}
	return 0
}

// items calls each for the items of a list until it returns false.
func items(l traits.Lister, each func(ref.Val) bool) {
	for it := l.Iterator(); it.HasNext() == types.True; {
		if !each(it.Next()) {
			return
		}
	}
}

func fitsFlat(args []ref.Val) bool {
	depth := int64(1)
	if len(args) > 1 {
		if n, ok := args[1].(types.Int); ok {
			depth = int64(n)
		}
	}
	return afterFlat(args[0], depth, maxItems) >= 0
}

// afterFlat subtracts the number of items of a list, nested up to depth, from
// left; the result is negative if there are more items.
func afterFlat(v ref.Val, depth, left int64) int64 {
	l, ok := v.(traits.Lister)
	if !ok || depth < 0 {
		return left - 1
	}
	items(l, func(item ref.Val) bool {
		left = afterFlat(item, depth-1, left-1)
		return left >= 0
	})
	return left
}

func fitsReplaced(args []ref.Val) bool {
	text, old, with := length(args[0]), length(args[1]), length(args[2])
	if with <= old {
		return true
	}
	s, _ := args[0].(types.String)
	o, _ := args[1].(types.String)
	times := int64(strings.Count(string(s), string(o)))
	if len(args) > 3 {
		if n, ok := args[3].(types.Int); ok && n >= 0 {
			times = min(times, int64(n))
		}
	}
	return times == 0 || (maxText-text)/times >= with-old
}

func length(v ref.Val) int64 {
	s, _ := v.(types.String)
	return int64(len(s))
}

func fitsJoined(args []ref.Val) bool {
	l, ok := args[0].(traits.Lister)
	if !ok {
		return true
	}
	between := int64(0)
	if len(args) > 1 {
		between = length(args[1])
	}
	left := int64(maxText)
	items(l, func(item ref.Val) bool {
		left -= length(item) + between
		return left >= 0
	})
	return left >= 0
}

// maxPrecision bounds the precision of a formatted number.
const maxPrecision = 1000

func fitsFormatted(args []ref.Val) bool {
	format, _ := args[0].(types.String)
	for rest := string(format); ; {
		_, after, ok := strings.Cut(rest, "%.")
		if !ok {
			break
		}
		digits := len(after) - len(strings.TrimLeft(after, "0123456789"))
		if n, err := strconv.Atoi(after[:digits]); digits > 0 && (err != nil || n > maxPrecision) {
			return false
		}
		rest = after
	}
	return afterText(args[1], maxText-int64(len(format))) >= 0
}

const (
	// maxQuantity is the longest text of a quantity: parsing takes time and
	// memory by the square of its length.
	maxQuantity = 10_000
	// maxExponent is its largest exponent: comparing 1e999999999 computes all
	// of its digits.
	maxExponent = 10_000
)

func fitsQuantity(args []ref.Val) bool {
	s, _ := args[0].(types.String)
	if len(s) > maxQuantity {
		return false
	}
	at := strings.LastIndexAny(string(s), "eE")
	if at < 0 || at == len(s)-1 {
		return true // E alone is a suffix
	}
	n, err := strconv.ParseInt(string(s[at+1:]), 10, 64)
	return err != nil || -maxExponent <= n && n <= maxExponent
}

// afterText subtracts the length of a value's text from left, as afterFlat
// does. A part that a value holds several times counts each time.
func afterText(v ref.Val, left int64) int64 {
	switch v := v.(type) {
	case types.String:
		return left - int64(len(v))
	case types.Bytes:
		return left - 2*int64(len(v))
	case traits.Mapper:
		for it := v.Iterator(); it.HasNext() == types.True && left >= 0; {
			key := it.Next()
			left = afterText(v.Get(key), afterText(key, left-2))
		}
	case traits.Lister:
		items(v, func(item ref.Val) bool {
			left = afterText(item, left-2)
			return left >= 0
		})
	default:
		left -= 16
	}
	return left
}
