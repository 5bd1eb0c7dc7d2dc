package main

import "testing"

// Stacks are as profiles have them, the innermost function first.
func TestDesks(t *testing.T) {
	const own = "github.com/kanzen-io/kanzen/internal/"
	for name, test := range map[string]struct {
		stack []string
		want  bool
	}{
		"the recorder":                    {[]string{"runtime.mallocgc", own + "observe/recorder.(*Recorder).record", own + "observe/recorder.(*Recorder).Filter.func1", "net/http.serve"}, true},
		"what the filter does itself":     {[]string{"runtime.nanotime", own + "observe/recorder.(*Recorder).Filter.func1", own + "chain.serve"}, true},
		"what is served inside of it":     {[]string{"runtime.mallocgc", own + "engine.(*Endpoint).Get", own + "observe/recorder.(*Recorder).Filter.func1", own + "chain.serve"}, false},
		"a helper of the recorder":        {[]string{own + "object/jsonobject.AppendString", own + "observe/recorder.line.quoted"}, true},
		"the recorder's packages":         {[]string{own + "observe/recorder/parts.Of"}, true},
		"findings":                        {[]string{own + "observe/findings.(*Engine).look"}, true},
		"a package that begins like it":   {[]string{own + "observe/recorders.New"}, false},
		"the history":                     {[]string{own + "store/past.(*History).put"}, true},
		"the history's tree":              {[]string{"syscall.write", "github.com/cockroachdb/pebble/v2/record.(*LogWriter).flushLoop"}, true},
		"something else":                  {[]string{"runtime.futex", own + "store.(*Store).Commit"}, false},
		"nothing of the module's":         {[]string{"runtime.gcBgMarkWorker"}, false},
		"etcd, which is in the same file": {[]string{"go.etcd.io/bbolt.(*Tx).Commit"}, false},
	} {
		if got := desks(test.stack); got != test.want {
			t.Errorf("%s: %t", name, got)
		}
	}
	if !collects([]string{"runtime.scanobject", "runtime.gcDrain", "runtime.gcBgMarkWorker"}) || collects([]string{"runtime.mallocgc"}) {
		t.Error("the garbage collector is not told from what allocates")
	}
}
