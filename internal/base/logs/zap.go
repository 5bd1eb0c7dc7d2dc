package logs

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"k8s.io/utils/clock"
)

// Zap returns a logger for etcd that writes to log. Most of what etcd logs as errors is harmless noise while it starts, so
// only what ends the process is written, and, once in a while, the few lines that an operator can act on. With debugging
// enabled everything is.
func Zap(log *slog.Logger, clk clock.PassiveClock) *zap.Logger {
	return zap.New(&zapCore{log: log, seldom: NewSeldom(log, clk, time.Minute)})
}

// telling are lines of etcd that an operator can act on, and what to do.
var telling = map[string]string{
	"slow fdatasync":              "the disk is slow and every write waits for it: put the data on a faster one",
	"apply request took too long": "the disk or the processor is too slow for what is asked, or a request is very large",
}

// zapCore is a zapcore.Core that writes to a slog.Logger.
type zapCore struct {
	log    *slog.Logger
	seldom *Seldom
	fields []zapcore.Field
}

// Enabled is part of zapcore.Core.
func (c *zapCore) Enabled(l zapcore.Level) bool { return l >= zapcore.InfoLevel }

// With is part of zapcore.Core.
func (c *zapCore) With(fields []zapcore.Field) zapcore.Core {
	return &zapCore{log: c.log, seldom: c.seldom, fields: slices.Concat(c.fields, fields)}
}

// Check is part of zapcore.Core.
func (c *zapCore) Check(e zapcore.Entry, to *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if _, ok := telling[e.Message]; ok || e.Level >= zapcore.DPanicLevel || c.verbose() {
		return to.AddCore(e, c)
	}
	return to
}

func (c *zapCore) verbose() bool { return c.log.Enabled(context.Background(), slog.LevelDebug) }

// Write is part of zapcore.Core.
func (c *zapCore) Write(e zapcore.Entry, fields []zapcore.Field) error {
	args := c.args(fields)
	advice, tells := telling[e.Message]
	if tells && !c.verbose() {
		c.seldom.Warn(e.Message, "etcd: "+e.Message, append(args, "advice", advice)...)
		return nil
	}
	c.log.Log(context.Background(), levelOf(e.Level), "etcd: "+e.Message, args...)
	return nil
}

// args returns fields as slog has them, in an order that does not change.
func (c *zapCore) args(fields []zapcore.Field) []any {
	enc := zapcore.NewMapObjectEncoder()
	for _, f := range slices.Concat(c.fields, fields) {
		f.AddTo(enc)
	}
	var args []any
	for _, k := range slices.Sorted(maps.Keys(enc.Fields)) {
		args = append(args, slog.Any(k, enc.Fields[k]))
	}
	return args
}

// Sync is part of zapcore.Core.
func (c *zapCore) Sync() error { return nil }

func levelOf(l zapcore.Level) slog.Level {
	switch {
	case l >= zapcore.ErrorLevel:
		return slog.LevelError
	case l >= zapcore.WarnLevel:
		return slog.LevelWarn
	case l >= zapcore.InfoLevel:
		return slog.LevelInfo
	}
	return slog.LevelDebug
}
