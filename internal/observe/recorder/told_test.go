package recorder

import (
	"context"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/kanzen-io/kanzen/internal/observe/recorder/v1alpha1"
	"github.com/kanzen-io/kanzen/internal/request"
)

// TestMessageOfAnotherObject has a request be refused that has changed another object than the one it names: the history of that other
// object does not have the message, since its readers are not those of the one that the message quotes.
func TestMessageOfAnotherObject(t *testing.T) {
	r, clk := newTest(1 << 20)
	serve(t, r, clk, "PUT", "/api/v1/namespaces/n/services/s", "alice", 422, func(ctx context.Context) {
		wrote(r, "configmaps", configMap("other", nil), configMap("other", map[string]string{"a": "b"}))(ctx)
		request.SetRefused(ctx, "Invalid", "it quotes canary", []string{"spec[canary]"})
	})
	of := func(resource, name string) []v1alpha1.HistoryEntry {
		entries, _ := r.History(v1alpha1.ObjectReference{Resource: resource, Namespace: "n", Name: name})
		return entries
	}
	if e := of("configmaps", "other"); len(e) != 1 || e[0].Message != "" || e[0].RefusedFields != nil {
		t.Errorf("the other object: %+v", e)
	}
	if e := of("services", "s"); len(e) != 1 || e[0].Message != "it quotes canary" || len(e[0].RefusedFields) != 1 {
		t.Errorf("the object itself: %+v", e)
	}
}

// TestReadersAreNotMistaken has readers ask whose names are what remains of other users' names in the recorder.
func TestReadersAreNotMistaken(t *testing.T) {
	long := strings.Repeat("a", 2*maxUser)
	d := &Deps{}
	for name, want := range map[string]bool{"alice": true, "ä": true, "al\x01ice": false, long: false, user.Anonymous: false} {
		kept := shared(name, maxUser)
		of := func(name string) reader {
			return d.readerOf(request.WithUser(t.Context(), &user.DefaultInfo{Name: name}))
		}
		if got := of(kept).was(kept, ""); got != want {
			t.Errorf("%.20q: the reader %.20q was taken for it: %v", name, kept, got)
		}
		if of("bob").was(kept, "") || of(name).was(kept, "bob") {
			t.Errorf("%.20q: a reader was taken for another one", name)
		}
	}
}
