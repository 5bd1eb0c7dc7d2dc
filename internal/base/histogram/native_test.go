package histogram_test

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/kanzen-io/kanzen/internal/base/histogram"
)

// special are values that buckets have rules for.
var special = []float64{0, math.Copysign(0, -1), math.NaN(), math.Inf(1), math.Inf(-1), math.MaxFloat64, -math.MaxFloat64,
	math.SmallestNonzeroFloat64, -math.SmallestNonzeroFloat64, 0x1p-1022, math.Nextafter(0x1p-1022, 0),
	prometheus.DefNativeHistogramZeroThreshold, math.Nextafter(prometheus.DefNativeHistogramZeroThreshold, 1), 1, -1, 0.5, 60}

// distributions make values: of a usual size, of any size, and any bits at all.
var distributions = map[string]func(*rand.Rand) float64{
	"usual":  func(r *rand.Rand) float64 { return r.ExpFloat64() / 10 },
	"wide":   func(r *rand.Rand) float64 { return math.Exp(r.NormFloat64() * 20) },
	"signed": func(r *rand.Rand) float64 { return math.Exp(r.NormFloat64()*10) * float64(r.IntN(3)-1) },
	"whole":  func(r *rand.Rand) float64 { return math.Ldexp(float64(r.IntN(20)-4), r.IntN(12)) },
	"bits":   func(r *rand.Rand) float64 { return math.Float64frombits(r.Uint64()) },
	"special": func(r *rand.Rand) float64 {
		if r.IntN(4) == 0 {
			return special[r.IntN(len(special))]
		}
		return r.NormFloat64()
	},
}

var kinds = map[string]prometheus.HistogramOpts{
	"classic":           options(false),
	"no buckets":        {},
	"bucket of all":     {Buckets: []float64{0.5, math.Inf(1)}},
	"many buckets":      {Buckets: prometheus.ExponentialBuckets(1e-9, 1.5, 100)},
	"native":            options(true),
	"native only":       {NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 160},
	"no limit":          {NativeHistogramBucketFactor: 1.1},
	"few":               {NativeHistogramBucketFactor: 1.001, NativeHistogramMaxBucketNumber: 5},
	"nothing is zero":   {NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 160, NativeHistogramZeroThreshold: prometheus.NativeHistogramZeroThresholdZero},
	"much is zero":      {NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 160, NativeHistogramZeroThreshold: 0.1},
	"coarse from start": {NativeHistogramBucketFactor: 1e9, NativeHistogramMaxBucketNumber: 20},
}

// TestObserve compares random observations with those of the library.
func TestObserve(t *testing.T) {
	t.Parallel()
	for kind, o := range kinds {
		for distribution, value := range distributions {
			t.Run(kind+"/"+distribution, func(t *testing.T) {
				t.Parallel()
				b, r := newBoth(o), rand.New(rand.NewPCG(1, 2))
				for n := range 5000 {
					b.observe("get", "200", value(r))
					if n < 40 || n%50 == 0 {
						b.Same(t)
					}
				}
				b.Same(t)
			})
		}
	}
}

// Buckets are merged several times, when those of the library are.
func TestLimit(t *testing.T) {
	t.Parallel()
	b, r := newBoth(options(true)), rand.New(rand.NewPCG(1, 2))
	schemas := []int32{3}
	for n := range 1000 {
		b.observe("get", "200", r.NormFloat64()*math.Ldexp(1, r.IntN(1+n)-n/2)) // more and more apart
		b.Same(t)
		if schema := b.schema(t); schema != schemas[len(schemas)-1] {
			schemas = append(schemas, schema)
		}
	}
	if want := []int32{3, 2, 1, 0, -1, -2, -3}; !slices.Equal(schemas, want) {
		t.Errorf("schemas %v, want %v", schemas, want)
	}
}

func (b *both) schema(t *testing.T) int32 {
	families, err := b.Got.Gather()
	if err != nil {
		t.Fatal(err)
	}
	return families[0].Metric[0].Histogram.GetSchema()
}

// TestBounds compares the buckets of values at each bound of each schema, and beside it.
func TestBounds(t *testing.T) {
	t.Parallel()
	for schema := -4; schema <= 8; schema++ {
		t.Run(fmt.Sprint(schema), func(t *testing.T) {
			t.Parallel()
			b := newBoth(prometheus.HistogramOpts{NativeHistogramBucketFactor: math.Exp2(math.Exp2(-float64(schema))) * (1 + 1e-12)})
			for n := range 257 {
				bound := math.Exp2(float64(n) / 256)
				for value := math.Float64frombits(math.Float64bits(bound) - 4); value < bound*(1+0x8p-52); value = math.Nextafter(value, 3) {
					for _, exponent := range []int{-1030, -1000, -127, -20, -1, 0, 1, 7, 1000, 1022} {
						b.observe("get", fmt.Sprint(n%16), math.Ldexp(value, exponent))
						b.observe("get", fmt.Sprint(n%16), -math.Ldexp(value, exponent))
					}
				}
			}
			b.Same(t)
			if got := b.schema(t); int(got) != schema {
				t.Errorf("schema %d", got)
			}
		})
	}
}

// Once it counts, and has seen values of all sizes, a histogram allocates nothing to observe more of them.
func TestObserveAllocates(t *testing.T) {
	o := options(true)
	o.Name = "x"
	h, values := histogram.NewVec(o, nil).WithLabelValues(), durations(1000)
	observe := func() {
		for _, value := range values {
			h.Observe(value)
		}
	}
	if n := testing.AllocsPerRun(10, observe); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// As in the library, options that make no sense are an error of the program; and so are those that there are not here.
func TestNewVecPanics(t *testing.T) {
	t.Parallel()
	for what, o := range map[string]prometheus.HistogramOpts{
		"bounds that decrease":          {Buckets: []float64{1, 0.5}},
		"bounds that do not increase":   {Buckets: []float64{1, 1}},
		"the label of buckets":          {ConstLabels: prometheus.Labels{"le": "x"}},
		"a reset of native buckets":     {NativeHistogramBucketFactor: 1.1, NativeHistogramMinResetDuration: time.Hour},
		"a zero bucket that gets wider": {NativeHistogramBucketFactor: 1.1, NativeHistogramMaxZeroThreshold: 1},
	} {
		t.Run(what, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			o.Name = cmp.Or(o.Name, "x")
			histogram.NewVec(o, nil)
		})
	}
}
