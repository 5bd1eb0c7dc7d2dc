package logs

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	clocktesting "k8s.io/utils/clock/testing"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func logger(t *testing.T, format string, level slog.Level) (*slog.Logger, *bytes.Buffer) {
	t.Helper()
	var out bytes.Buffer
	h, err := New(&out, format, level)
	if err != nil {
		t.Fatal(err)
	}
	return slog.New(h), &out
}

func TestFormats(t *testing.T) {
	log, out := logger(t, "json", slog.LevelWarn)
	log.Info("hidden")
	log.Warn("shown", "d", time.Second)
	Step(log, clocktesting.NewFakePassiveClock(start), "opening", "opened", "file", "x")()
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 2 {
		t.Fatalf("%q", lines)
	}
	for i, want := range []map[string]string{
		{"level": "WARN", "msg": "shown", "d": "1s"},
		{"level": "INFO", "msg": "opened", "file": "x", "took": "0s"},
	} {
		var got map[string]string
		if err := json.Unmarshal([]byte(lines[i]), &got); err != nil {
			t.Fatal(err)
		}
		delete(got, "time")
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%v, want %v", got, want)
		}
	}
	log, out = logger(t, "text", slog.LevelWarn)
	log.With("a", 1).Error("bad")
	if s := out.String(); !strings.HasSuffix(s, " level=ERROR msg=bad a=1\n") {
		t.Error(s)
	}
	if _, err := New(out, "xml", slog.LevelInfo); err == nil {
		t.Error("xml is a format")
	}
}

func TestSeldom(t *testing.T) {
	log, out := logger(t, "text", slog.LevelWarn)
	clk := clocktesting.NewFakePassiveClock(start)
	s := NewSeldom(log, clk, time.Minute)
	say := func(key string) string {
		out.Reset()
		s.Warn(key, "full")
		return out.String()
	}
	if say("a") == "" || say("a") != "" || say("b") == "" {
		t.Error("each key is to be said once")
	}
	clk.SetTime(start.Add(time.Minute))
	if got := say("a"); !strings.Contains(got, "alsoBefore=1") {
		t.Errorf("after a minute: %q", got)
	}
	s.Forget("a")
	if got := say("a"); got == "" || strings.Contains(got, "alsoBefore") {
		t.Errorf("after it was forgotten: %q", got)
	}
	for i := range 3 * maxKeys {
		say(fmt.Sprint(i))
	}
	if len(s.said) > maxKeys {
		t.Errorf("%d keys are remembered", len(s.said))
	}
}

func TestZap(t *testing.T) {
	clk := clocktesting.NewFakePassiveClock(start)
	log, out := logger(t, "text", slog.LevelWarn)
	z := Zap(log, clk).With(zap.String("member", "m"))
	z.Error("noise")
	z.Info("noise")
	for range 3 {
		z.Warn("slow fdatasync", zap.Duration("took", 2*time.Second))
	}
	if got := out.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, `msg="etcd: slow fdatasync" member=m took=2s advice="the disk is slow`) {
		t.Errorf("%q", got)
	}
	log, out = logger(t, "text", slog.LevelDebug)
	Zap(log, clk).Info("all", zap.Int("n", 1))
	if got := out.String(); !strings.HasSuffix(got, "level=INFO msg=\"etcd: all\" n=1\n") {
		t.Errorf("%q", got)
	}
}
