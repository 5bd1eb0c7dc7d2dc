package aggregator

import (
	"reflect"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"
)

// TestNoUID names a user to extension servers with its UID and without.
func TestNoUID(t *testing.T) {
	jane := user.DefaultInfo{Name: "jane", UID: "7", Groups: []string{"g"}, Extra: map[string][]string{"k": {"v"}}}
	without := jane
	without.UID = ""
	for _, c := range []struct {
		noUID bool
		want  user.DefaultInfo
	}{{false, jane}, {true, without}} {
		if got := (&Config{NoUID: c.noUID}).shown(&jane); !reflect.DeepEqual(got, &c.want) {
			t.Errorf("%t: %+v", c.noUID, got)
		}
	}
}
