package chain

import (
	"net/http"
	"unicode/utf8"

	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/kanzen-io/kanzen/internal/request"
)

const (
	// maxWarnings bounds the text of all warnings of an answer, in runes.
	maxWarnings = 4 * 1024
	// maxWarning bounds each warning if all together are too long.
	maxWarning = 256
	// miscWarning is the code of all warnings.
	miscWarning = 299
)

// Warnings collects warnings while a request is served, and sends them in the header. Warnings that come after the header
// has been sent are lost.
func Warnings(next Handler) Handler {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, warnings := request.WithWarnings(r.Context())
		resp, w := responseOf(w)
		resp.before = append(resp.before, func(_ int, h http.Header) { addWarnings(h, warnings.Take()) })
		next(w, r.WithContext(ctx))
		if !resp.begun.Load() {
			// Nothing was written yet: net/http sends the header when the handler returns.
			addWarnings(w.Header(), warnings.Take())
		}
	}
}

func addWarnings(h http.Header, texts []string) {
	total := 0
	for _, text := range texts {
		total += utf8.RuneCountInString(text)
	}
	limit, written := total, 0
	if total > maxWarnings {
		limit = maxWarning
	}
	for _, text := range texts {
		if written >= maxWarnings {
			return
		}
		text = firstRunes(text, limit)
		if value, err := utilnet.NewWarningHeader(miscWarning, "", text); err == nil {
			h.Add("Warning", value)
			written += utf8.RuneCountInString(text)
		}
	}
}

func firstRunes(s string, n int) string {
	for i := range s {
		if n == 0 {
			return s[:i]
		}
		n--
	}
	return s
}
