package server

import (
	"context"
	"errors"
	"time"

	"github.com/kanzen-io/kanzen/internal/base/guard"
	"github.com/kanzen-io/kanzen/internal/base/logs"
	"github.com/kanzen-io/kanzen/internal/request"
	"github.com/kanzen-io/kanzen/internal/server/controlplane"
)

// run serves until ctx ends, then shuts down in order. It calls ready once the
// server accepts requests, has made the first objects of a cluster, and /readyz
// says so (KMS plugins apart).
func (s *server) run(ctx context.Context, ready func()) (err error) {
	defer func() { err = errors.Join(err, s.closers.Close()) }()
	// Groups have contexts of their own, so that each ends after the groups that
	// need it: controllers, listener, indexes, storage.
	lasting := request.WithUser(context.WithoutCancel(ctx), controlplane.Itself())
	failed := make(chan error, 1)
	storage := s.base.guard.Group(lasting, failed)
	defer storage.Stop()
	storage.Start(s.work.storage...)
	running := s.base.guard.Group(lasting, failed)
	defer running.Stop()
	running.Start(s.work.indexes...)
	// The listener starts before the first objects are made, so that health is
	// served from the start.
	if s.listener != nil {
		defer func() { err = errors.Join(err, s.listener.Close()) }()
		running.Start(guard.Task{Run: func(context.Context) error { return s.listener.Serve() }})
	}
	made := logs.Step(s.base.log, s.base.process.Clock, "making the first objects", "first objects are there")
	if err := s.work.bootstrap(ctx); err != nil && ctx.Err() == nil {
		s.ending.Cut()
		return err
	}
	if ctx.Err() == nil {
		made()
	}
	// acting writes through the door: it ends before requests are cut.
	acting := s.base.guard.Group(lasting, failed)
	defer acting.Stop()
	service := s.base.guard.Group(lasting, failed)
	defer service.Stop()
	if ctx.Err() == nil {
		select {
		case <-s.work.judged:
		case <-ctx.Done():
		}
		service.Start(s.work.service)
		acting.Start(s.work.upkeep...)
		acting.Start(guard.Quiet("", s.work.controllers), guard.Quiet("", s.announce(ready)))
	}
	select {
	case <-ctx.Done():
	case err := <-failed:
		s.ending.Cut()
		return err
	}
	return s.ending.Run(s.listener, func() {
		service.Stop()
		acting.Stop()
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
