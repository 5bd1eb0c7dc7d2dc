package cel

import (
	"runtime"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/cel/environment"
)

// Calls that would cost too much are not made. The error is the same as when
// the counted cost exceeds the limit.
func TestBound(t *testing.T) {
	c := NewCompiler()
	long := strings.Repeat("x", 1<<20)
	list := make([]any, 5000)
	for n := range list {
		list[n] = "x"
	}
	in := inputs{ObjectInput: map[string]any{"long": long, "list": list, "digits": strings.Repeat("1", 1<<20), "n": int64(3)}}
	for _, tc := range []struct {
		expression string
		refused    bool
	}{
		{"lists.range(3) == [0, 1, 2]", false},
		{"lists.range(100000000).size() > 0", true},
		{"lists.range(int(object.n) * 100000000).size() > 0", true},
		{"dyn([[1], [2, 3]]).flatten() == [1, 2, 3]", false},
		{"dyn([[[1]], [[2, 3]]]).flatten(2) == [1, 2, 3]", false},
		{"[" + strings.Repeat("object.list,", 300) + "].flatten().size() > 0", true},
		{"'abcabc'.replace('b', 'xyz') == 'axyzcaxyzc' && 'aaa'.replace('a', 'bb', 2) == 'bbbba'", false},
		{"object.long.replace('', object.long) == ''", true},
		{"object.long.replace('x', 'xxxxxxxxxxxxxxxxxxxx') == ''", true},
		{"['a', 'b'].join() == 'ab' && ['a', 'b'].join('-') == 'a-b'", false},
		{"object.list.join(object.long) == ''", true},
		{"'%s %d %.2f'.format(['a', 1, 1.5]) == 'a 1 1.50'", false},
		{"'%.999999999f'.format([1.0]) == ''", true},
		{"'" + strings.Repeat("%s", 20) + "'.format([" + strings.Repeat("object.long,", 20) + "]) == ''", true},
		{"sets.contains(['a', 'b'], ['a']) && sets.intersects([1], [1, 2]) && sets.equivalent([1], [1, 1])", false},
		{"sets.contains(object.list, object.list)", true},
		{"sets.intersects(object.list, object.list)", true},
		{"sets.equivalent(object.list, object.list)", true},
		{"[2, 1, 1].distinct() == [2, 1] && [2, 1].sort() == [1, 2] && [2, 1].sortBy(x, -x) == [2, 1]", false},
		{"object.list.distinct().size() == 1", true},
		{"quantity('1e3').isGreaterThan(quantity('1Ei')) == false && isQuantity('5E') && !isQuantity('e')", false},
		{"isQuantity('1' + object.digits)", true},
		{"quantity('1e999999999').isGreaterThan(quantity('1'))", true},
		{"quantity('1E-999999999').isGreaterThan(quantity('1'))", true},
	} {
		p := c.Compile(tc.expression, Scope{}, Bool)
		if p.Err() != nil {
			t.Errorf("%.80s: %v", tc.expression, p.Err())
			continue
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		v, err, end := NewRun(t.Context(), in, nil, 10_000_000).Eval(p)
		runtime.ReadMemStats(&after)
		if tc.refused != (err != nil && strings.Contains(err.Error(), "operation cancelled: actual cost limit exceeded")) || !tc.refused && (err != nil || v.Value() != true) {
			t.Errorf("%.80s: %v, %v, %v", tc.expression, v, err, end)
		}
		if n := after.TotalAlloc - before.TotalAlloc; n > 64<<20 {
			t.Errorf("%.80s: it took %d bytes", tc.expression, n)
		}
	}
}

// All functions with a bound exist in the environment under their names.
func TestBoundFunctions(t *testing.T) {
	env := environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()).StoredExpressionsEnv()
	for name := range predictions() {
		if env.Functions()[name] == nil {
			t.Errorf("there is no function %s", name)
		}
	}
}
