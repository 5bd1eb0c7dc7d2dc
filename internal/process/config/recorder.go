package config

import (
	"path/filepath"
	"time"

	"github.com/spf13/pflag"
)

// The defaults of the flight recorder's settings.
const (
	recorderMemory = 12 << 20
	recorderSlow   = 500 * time.Millisecond
	recorderSample = 100
	recorderSize   = 256 << 20
	// standaloneRecorderSize is what fills itself in a data directory that was made for something else.
	standaloneRecorderSize = 64 << 20
	recorderAge            = 7 * 24 * time.Hour
)

func (c *Config) addRecorderFlags(fs *pflag.FlagSet) {
	fs.Int64Var(&c.FlightRecorderMemory, "flight-recorder-memory", c.FlightRecorderMemory, "Bytes of memory in which the flight recorder keeps requests and the history of objects, to be read by 'kanzen why', 'kanzen top' and the API group flightrecorder.kanzen.io; 0: there is none.")
	fs.DurationVar(&c.FlightRecorderSlow, "flight-recorder-slow", c.FlightRecorderSlow, "From what time on a request is kept for being slow.")
	fs.IntVar(&c.FlightRecorderSample, "flight-recorder-sample", c.FlightRecorderSample, "Of how many reads one is kept, beyond the first few of each second.")
	fs.StringVar(&c.FlightRecorderDir, "flight-recorder-dir", c.FlightRecorderDir, "Directory in which the flight recorder also keeps requests, so that they outlive the process. (default recorder below --data-dir; without either only memory)")
	fs.Int64Var(&c.FlightRecorderDirSize, "flight-recorder-dir-size", c.FlightRecorderDirSize, "Bytes of the files in --flight-recorder-dir; 0: nothing is kept there.")
	fs.DurationVar(&c.FlightRecorderDirAge, "flight-recorder-dir-age", c.FlightRecorderDirAge, "How long files in --flight-recorder-dir are kept, in whole days; 0: as long as there is room.")
	fs.BoolVar(&c.Console, "console", c.Console, "Serve a page at /console that shows what the flight recorder knows, to those who may read it there; 'kanzen console' opens it. Without --flight-recorder-memory there is none.")
	fs.BoolVar(&c.WebhookAdvice, "admission-webhook-warnings", c.WebhookAdvice, "Warn clients of webhooks that have delayed their write for more than a second, and of webhook configurations that can stop a cluster.")
	fs.DurationVar(&c.WebhookBreaker, "admission-webhook-breaker", c.WebhookBreaker, "For how long a webhook must have given no answer, to several users, until it is no longer waited for. Until it answers a review that this server sends every 5 seconds, writes are refused at once with failurePolicy Fail, and wait for one second with Ignore. 0: it is always waited for.")
}

// RecorderDir is where the flight recorder keeps requests; empty: in memory alone.
func (c *Process) RecorderDir() string {
	switch {
	case c.FlightRecorderMemory == 0 || c.FlightRecorderDirSize == 0:
		return ""
	case c.FlightRecorderDir == "" && c.DataDir != "":
		return filepath.Join(c.DataDir, "recorder")
	}
	return c.FlightRecorderDir
}

func (c *Config) validateRecorder(bad reporter) {
	const least = 1 << 20
	if c.FlightRecorderMemory != 0 && c.FlightRecorderMemory < least {
		bad("flight-recorder-memory", "must be 0 or at least %d", least)
	}
	if c.FlightRecorderSlow <= 0 {
		bad("flight-recorder-slow", "must be more than 0")
	}
	if c.FlightRecorderSample < 1 {
		bad("flight-recorder-sample", "must be at least 1")
	}
	if c.FlightRecorderDirSize != 0 && c.FlightRecorderDirSize < 8<<20 {
		bad("flight-recorder-dir-size", "must be 0 or at least %d", 8<<20)
	}
	if c.FlightRecorderDirAge < 0 {
		bad("flight-recorder-dir-age", "must not be negative")
	}
	if c.FlightRecorderDir != "" && c.FlightRecorderMemory == 0 {
		bad("flight-recorder-dir", "goes together with --flight-recorder-memory")
	}
	if c.Console && c.FlightRecorderMemory == 0 && c.given != nil && c.given("console") {
		bad("console", "goes together with --flight-recorder-memory")
	}
	if c.WebhookBreaker < 0 {
		bad("admission-webhook-breaker", "must not be negative")
	}
}
