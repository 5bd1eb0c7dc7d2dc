package server

import (
	"context"
	"errors"
	"time"

	"github.com/kanzen-io/kanzen/internal/base/logs"
)

// run serves until ctx ends, then shuts down in order. It calls ready once the
// server accepts requests, has made the first objects of a cluster, and /readyz
// says so (KMS plugins apart).
func (s *server) run(ctx context.Context, ready func()) (err error) {
	defer func() { err = errors.Join(err, s.closers.Close()) }()
	// Groups have contexts of their own, so that each ends after the groups that
	// need it: controllers, listener, indexes, storage.
	lasting := context.WithoutCancel(ctx)
	failed := make(chan error, 1)
	storage := newGroup(lasting, s.base.guard, failed)
	defer storage.stop()
	storage.start(s.work.storage...)
	running := newGroup(lasting, s.base.guard, failed)
	defer running.stop()
	running.start(s.work.indexes...)
	// The listener starts before the first objects are made, so that health is
	// served from the start.
	if s.listener != nil {
		defer func() { err = errors.Join(err, s.listener.Close()) }()
		running.start(task{run: func(context.Context) error { return s.listener.serve() }})
	}
	made := logs.Step(s.base.log, s.base.process.Clock, "making the first objects", "first objects are there")
	if err := s.work.bootstrap(ctx); err != nil && ctx.Err() == nil {
		s.ending.cut()
		return err
	}
	if ctx.Err() == nil {
		made()
	}
	// acting writes through the door: it ends before requests are cut.
	acting := newGroup(lasting, s.base.guard, failed)
	defer acting.stop()
	service := newGroup(lasting, s.base.guard, failed)
	defer service.stop()
	if ctx.Err() == nil {
		select {
		case <-s.work.judged:
		case <-ctx.Done():
		}
		service.start(s.work.service)
		acting.start(s.work.upkeep...)
		acting.start(task{run: quietly(s.work.controllers)}, task{run: quietly(s.announce(ready))})
	}
	select {
	case <-ctx.Done():
	case err := <-failed:
		s.ending.cut()
		return err
	}
	return s.ending.run(s.listener, func() {
		service.stop()
		acting.stop()
	})
}

// announce calls ready once all that /readyz asks for has begun.
func (s *server) announce(ready func()) func(context.Context) {
	return func(ctx context.Context) {
		for s.notReady(ctx) != nil {
			select {
			case <-time.After(time.Millisecond):
			case <-ctx.Done():
				return
			}
		}
		ready()
	}
}
