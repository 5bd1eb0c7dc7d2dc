package past

import (
	"context"
	"time"
)

// trimEvery is how often it is looked what is to be dropped, and flushEvery how often what is in memory comes to the disk.
const trimEvery, flushEvery = 10 * time.Second, time.Minute

// Maintain drops what is too old or too much, and writes to the disk, until ctx ends. It needs Run to be running.
func (p *Past) Maintain(ctx context.Context) {
	flushed, written := p.Clock.Now(), int64(0)
	for {
		select {
		case <-p.Clock.After(trimEvery):
		case <-ctx.Done():
			return
		}
		if now, reached := p.Clock.Now(), p.Reached(); now.Sub(flushed) >= flushEvery && reached != written {
			flushed, written = now, reached
			p.warn("the history could not be written to the disk", p.Flush())
		}
		_, err := p.trim()
		p.warn("old history could not be dropped", err)
		p.warn("who has written could not be recorded", p.flushAuthors())
	}
}

// warn logs an error, unless Run has told of it.
func (p *Past) warn(text string, err error) {
	if err != nil && p.broken.Err() == nil {
		p.Logger.Warn(text, "error", err)
	}
}

// Flush writes what is in memory to the disk.
func (p *Past) Flush() (err error) {
	done, err := p.use()
	if err != nil {
		return err
	}
	defer done()
	defer p.broken.Recover(&err)
	return p.tree.Flush()
}
