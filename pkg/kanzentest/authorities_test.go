package kanzentest_test

import (
	"context"
	"crypto/x509"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kanzen-io/kanzen/internal/wire/pki/pkitest"
	"github.com/kanzen-io/kanzen/pkg/kanzentest"
)

// TestRotatedAuthorities has extension servers learn of another authority as soon as the server itself takes it up.
func TestRotatedAuthorities(t *testing.T) {
	t.Parallel()
	c := kanzentest.NewClock(time.Time{})
	authority := func(serial int64) string {
		return string(pkitest.Issue(t, x509.Certificate{SerialNumber: big.NewInt(serial), NotAfter: time.Now().Add(1000 * time.Hour), IsCA: true, BasicConstraintsValid: true}, nil).PEM())
	}
	file := filepath.Join(t.TempDir(), "ca.crt")
	write := func(pem string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(pem), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	old, young := authority(1), authority(2)
	write(old)
	s := kanzentest.Start(t, kanzentest.WithClock(c), kanzentest.Flags("--client-ca-file="+file))
	k := client(t, s.Config())
	published := func(ctx context.Context) string {
		m, err := k.CoreV1().ConfigMaps(metav1.NamespaceSystem).Get(ctx, "extension-apiserver-authentication", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return m.Data["client-ca-file"]
	}
	if got := published(t.Context()); !strings.Contains(got, old) {
		t.Fatalf("at the start: %s", got)
	}
	write(old + young)
	advanced := time.Duration(0)
	within(t, func(ctx context.Context) bool {
		if advanced < 30*time.Second { // not as long as until the next check in any case
			c.Advance(time.Second)
			advanced += time.Second
		}
		return strings.Contains(published(ctx), young)
	})
}
