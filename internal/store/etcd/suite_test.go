package etcd_test

import (
	"math/rand/v2"
	"testing"

	"github.com/kanzen-io/kanzen/internal/store/etcd"
	"github.com/kanzen-io/kanzen/internal/store/etcd/etcdtest"
	"github.com/kanzen-io/kanzen/internal/store/storetest"
)

func TestSuiteEmbedded(t *testing.T) {
	storetest.Run(t, func(t testing.TB) storetest.Engine {
		dir := t.TempDir()
		return storetest.Engine{Open: func(t testing.TB) storetest.DB {
			db, err := etcd.OpenEmbedded(t.Context(), etcd.Embedded{Dir: dir, UnsafeNoFsync: true})
			if err != nil {
				t.Fatal(err)
			}
			return db
		}}
	})
}

func TestSuiteCluster(t *testing.T) {
	storetest.Run(t, func(t testing.TB) storetest.Engine {
		s := etcdtest.Start(t, false)
		return storetest.Engine{
			Open: func(testing.TB) storetest.DB { return s.Dial() },
			Faults: []func(storetest.DB, *rand.Rand){
				func(storetest.DB, *rand.Rand) { s.Restart() },
				func(storetest.DB, *rand.Rand) { s.Cut() },
			},
		}
	})
}
