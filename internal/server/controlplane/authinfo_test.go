package controlplane

import (
	"context"
	"crypto/x509"
	"math/big"
	"testing"
	"time"

	"github.com/kanzen-io/kanzen/internal/wire/pki/pkitest"
)

// bundle returns a certificate with an end of validity.
func bundle(t *testing.T, serial int64, end time.Time) string {
	t.Helper()
	return string(pkitest.Issue(t, x509.Certificate{SerialNumber: big.NewInt(serial), NotAfter: end}, nil).PEM())
}

// Servers of a cluster add to the values of other servers, while their authorities are rotated one after the other.
func TestAuthInfoAdds(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	a := &AuthInfo{Now: func() time.Time { return now }}
	ours, theirs, old := bundle(t, 1, now.Add(time.Hour)), bundle(t, 2, now.Add(time.Hour)), bundle(t, 3, now.Add(-time.Minute))
	if got := a.certificates([]byte(theirs+old+"# no certificate\n"+ours), []byte(ours)); got != theirs+ours {
		t.Errorf("certificates\n%s", got)
	}
	for _, c := range []struct {
		have string
		more []string
		want string
	}{{"", nil, "[]"}, {`["a"]`, []string{"b", "a"}, `["a","b"]`}, {"null", []string{"a"}, `["a"]`}, {"garbage", []string{"a"}, `["a"]`}} {
		if got := union(c.have, c.more); got != c.want {
			t.Errorf("%s and %v: %s, want %s", c.have, c.more, got, c.want)
		}
	}
}

// TestAuthInfoUIDHeaders has the headers of UIDs in the object and not, also after a server that had them.
func TestAuthInfoUIDHeaders(t *testing.T) {
	for _, c := range []struct {
		ours  []string
		noUID bool
		have  string
		want  string // empty: the key is not there
	}{
		{[]string{"X-Remote-Uid"}, false, "", `["X-Remote-Uid"]`},
		{nil, false, "", ""},
		{nil, false, `["X-Uid"]`, `["X-Uid"]`},
		{nil, true, "", ""},
		{nil, true, `["X-Uid"]`, ""},
	} {
		a := &AuthInfo{RequestHeaderCA: func() []byte { return nil }, Lists: map[string][]string{uidHeaders: c.ours}, NoUID: c.noUID}
		have := map[string]string{}
		if c.have != "" {
			have[uidHeaders] = c.have
		}
		if got := a.data(have)[uidHeaders]; got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
}

// The Bootstrapper may still be making the object while Run looks at it: the race detector judges.
func TestAuthInfoIsMadeWhileItIsKept(t *testing.T) {
	a := &AuthInfo{}
	ctx, cancel := context.WithCancel(t.Context())
	looks, ended := make(chan time.Time), make(chan struct{})
	go func() {
		defer close(ended)
		a.Run(ctx, func(time.Duration) <-chan time.Time { return looks }, func(err error) { t.Error(err) })
	}()
	for range 3 {
		if err := a.ensure(ctx); err != nil {
			t.Error(err)
		}
		looks <- time.Time{}
	}
	cancel()
	<-ended
}
