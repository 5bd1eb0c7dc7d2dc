package etcd

import (
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/base/logs"
)

// breakage is why the embedded etcd cannot go on. Its code logs that and would end the process, from a goroutine of its
// own. Here only the goroutine ends, and the server is told: it closes what it can and says what happened.
type breakage struct {
	happened chan struct{} // closed at the first

	mu  sync.Mutex
	why error
}

func newBreakage() *breakage { return &breakage{happened: make(chan struct{})} }

// ErrBroken says that the embedded etcd has given up, for example because the disk is full.
var ErrBroken = errors.New("etcd cannot go on")

// OnWrite is part of zapcore.CheckWriteHook. It is called after the log has the entry.
func (b *breakage) OnWrite(entry *zapcore.CheckedEntry, fields []zapcore.Field) {
	why := entry.Message
	for _, f := range fields {
		if err, ok := f.Interface.(error); ok && f.Type == zapcore.ErrorType {
			why += ": " + err.Error()
		}
	}
	b.mu.Lock()
	if b.why == nil {
		b.why = fmt.Errorf("%w: %s", ErrBroken, why)
		close(b.happened)
	}
	b.mu.Unlock()
	runtime.Goexit()
}

func (b *breakage) err() error {
	if b == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.why
}

// newLogger makes etcd's logger. What ends etcd is told to broken.
func newLogger(log *slog.Logger, broken *breakage) *zap.Logger {
	return logs.Zap(log, clock.RealClock{}).WithOptions(zap.WithFatalHook(broken), zap.WithPanicHook(broken))
}
