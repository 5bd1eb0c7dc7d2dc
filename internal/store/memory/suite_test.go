package memory_test

import (
	"errors"
	"math/rand/v2"
	"testing"

	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/store/memory"
	"github.com/kanzen-io/kanzen/internal/store/storetest"
)

// lasting is a log that is there after it was closed.
type lasting struct{ *memory.DB }

func (lasting) Close() error { return nil }

func TestSuite(t *testing.T) {
	storetest.Run(t, func(t testing.TB) storetest.Engine {
		db := memory.New(clock.RealClock{})
		t.Cleanup(func() { _ = db.Close() })
		return storetest.Engine{
			Open: func(testing.TB) storetest.DB { return lasting{db} },
			Faults: []func(storetest.DB, *rand.Rand){
				func(storetest.DB, *rand.Rand) { db.Break() },
				func(_ storetest.DB, r *rand.Rand) {
					db.Inject(memory.Fault{Of: memory.Commit | memory.Range | memory.Head, Skip: r.IntN(9), Err: errors.New("injected"), Lost: r.IntN(2) == 0})
				},
			},
		}
	})
}
