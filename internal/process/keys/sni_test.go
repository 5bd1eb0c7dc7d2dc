package keys

import (
	"log/slog"
	"strings"
	"testing"

	"k8s.io/utils/clock"
)

func TestSNIFlags(t *testing.T) {
	for _, bad := range []string{"x", "x,", "none,none"} {
		if _, err := loadSNI([]string{bad}, clock.RealClock{}, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "--tls-sni-cert-key") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
