package config

import (
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// The defaults of `kanzen serve`.
const (
	historyAge  = 24 * time.Hour
	historySize = 256 << 20
	// historyEtcdSize is small beside etcd's own limit of 8 GB.
	historyEtcdSize = 64 << 20
)

// historyKinds are the times of kinds that --history-kinds does not name: nobody asks what a lease was, and events are a history themselves.
var historyKinds = map[schema.GroupResource]time.Duration{{Group: "coordination.k8s.io", Resource: "leases"}: 0, {Resource: "events"}: 0, {Group: "events.k8s.io", Resource: "events"}: 0}

func (c *Config) addHistoryFlags(fs *pflag.FlagSet) {
	fs.DurationVar(&c.History, "history", c.History, "For how long the changes of objects are kept on the disk below --data-dir, to be read by 'kanzen history', 'kanzen diff', 'kanzen blame' and 'kanzen undelete'; 0: they are not.")
	fs.Int64Var(&c.HistorySize, "history-size", c.HistorySize, "Bytes of all changes that are kept. When there are more, the oldest of the kind that has most are dropped.")
	fs.Int64Var(&c.HistoryEtcdSize, "history-etcd-size", c.HistoryEtcdSize, "Bytes of the history, compressed, that the servers of one etcd keep in it for each other: one that is new, or was away for long, begins with it. 0: none.")
	fs.StringSliceVar(&c.HistoryKinds, "history-kinds", c.HistoryKinds, "Kinds whose changes are kept for another time than --history, as RESOURCE.GROUP=TIME; 0s: they are not kept. Leases and events are not, unless they are named.")
}

func (c *Config) validateHistory(bad reporter) {
	const least, leastInEtcd = 16 << 20, 4 << 20
	if c.History < 0 {
		bad("history", "must not be negative")
	}
	if c.History > 0 && c.DataDir == "" && c.given != nil && c.given("history") {
		bad("history", "goes together with --data-dir")
	}
	if c.HistoryEtcdSize != 0 && c.HistoryEtcdSize < leastInEtcd {
		bad("history-etcd-size", "must be 0, or at least %d", leastInEtcd)
	}
	if c.HistorySize < least {
		bad("history-size", "must be at least %d", least)
	}
	if _, err := c.HistoryAges(); err != nil {
		bad("history-kinds", "%v", err)
	}
}

// HistoryAges says for how long changes of kinds are kept that are not kept for as long as others.
func (c *Process) HistoryAges() (map[schema.GroupResource]time.Duration, error) {
	ages := maps.Clone(historyKinds)
	for _, entry := range c.HistoryKinds {
		kind, age, ok := strings.Cut(entry, "=")
		d, err := time.ParseDuration(age)
		if !ok || kind == "" || err != nil || d < 0 {
			return nil, fmt.Errorf("%q is not RESOURCE.GROUP=TIME, such as pods=48h", entry)
		}
		ages[schema.ParseGroupResource(kind)] = d
	}
	return ages, nil
}
