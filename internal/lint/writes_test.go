package lint

import (
	"path"
	"slices"
	"strings"
	"testing"
)

// writeFiles decide what becomes of an object and store it, for whoever asks: a request, a rule that changes a second object,
// code in this process. So they know no HTTP, and nothing that does.
var writeFiles = []string{"write.go", "decision.go", "creation.go", "change.go", "removal.go", "local.go"}

func TestWritesKnowNoHTTP(t *testing.T) {
	seen := 0
	eachFile(t, false, func(file string, imports []string) {
		if path.Dir(file) != "internal/engine" || !slices.Contains(writeFiles, path.Base(file)) {
			return
		}
		seen++
		for _, i := range imports {
			if i == "net/http" || strings.HasPrefix(i, "net/http/") {
				t.Errorf("%s imports %s", file, i)
			}
		}
	})
	if seen != len(writeFiles) {
		t.Errorf("%d of the files %v are there", seen, writeFiles)
	}
}
