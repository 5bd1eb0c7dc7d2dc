package debug

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/kanzen-io/kanzen/internal/request/route"
)

// Verbosity is the log verbosity, the number of -v. It may change at run time, and is safe for concurrent use.
type Verbosity struct {
	number atomic.Int64
	level  slog.LevelVar
}

// NewVerbosity creates a Verbosity with a number.
func NewVerbosity(n int) *Verbosity {
	v := &Verbosity{}
	v.Set(n)
	return v
}

// Set changes the verbosity.
func (v *Verbosity) Set(n int) {
	v.number.Store(int64(n))
	switch {
	case n >= 4:
		v.level.Set(slog.LevelDebug)
	case n >= 1:
		v.level.Set(slog.LevelInfo)
	default:
		v.level.Set(slog.LevelWarn)
	}
}

// Level is part of slog.Leveler.
func (v *Verbosity) Level() slog.Level { return v.level.Level() }

// accessLog is the verbosity from which requests are logged.
const accessLog = 3

// LogsAccess reports whether requests are logged.
func (v *Verbosity) LogsAccess() bool { return v.number.Load() >= accessLog }

// FlagsPath is the path for changing flags at run time.
const FlagsPath = "/debug/flags"

// ServeHTTP changes the verbosity: PUT /debug/flags/v.
func (v *Verbosity) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	say := func(code int, format string, args ...any) {
		w.Header().Set("Content-Type", "text/plain")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.WriteHeader(code)
		fmt.Fprintf(w, format+"\n", args...)
	}
	switch name := strings.Trim(strings.TrimPrefix(r.URL.Path, FlagsPath), "/"); name {
	case "":
		say(http.StatusOK, "flags that can be changed here: v")
	case "v":
		if r.Method != http.MethodPut {
			say(http.StatusNotAcceptable, "unsupported http method")
			return
		}
		body, err := io.ReadAll(io.LimitReader(r.Body, 64))
		if err != nil {
			say(http.StatusBadRequest, "error reading from body: %v", err)
			return
		}
		n, err := strconv.ParseUint(strings.TrimSpace(string(body)), 10, 31)
		if err != nil {
			say(http.StatusBadRequest, "%v", err)
			return
		}
		v.Set(int(n))
		say(http.StatusOK, "successfully set klog.logging.verbosity to %d", n)
	default:
		route.NotFound(w)
	}
}
