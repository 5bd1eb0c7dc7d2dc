package encryption

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	kmsapi "k8s.io/kms/apis/v2"
	"k8s.io/utils/clock"
)

// How often a plugin is asked for its status, and for how long the answer holds.
const (
	checkWell  = time.Minute
	checkIll   = 10 * time.Second
	resultWell = 20 * time.Second
	resultIll  = 3 * time.Second
)

// run asks for the status of the plugin until ctx ends, so that its keys are followed.
func (k *kms) run(ctx context.Context) { runChecks(ctx, k.clock, k.log, k.name, k.check) }

// runChecks checks a plugin until ctx ends, and logs what is wrong.
func runChecks(ctx context.Context, clk clock.Clock, log *slog.Logger, name string, check func(context.Context) error) {
	for {
		pause := checkWell
		if err := check(ctx); err != nil {
			pause = checkIll
			log.Warn("a KMS plugin is not well", "kms", name, "error", err)
		}
		select {
		case <-clk.After(pause):
		case <-ctx.Done():
			return
		}
	}
}

// check returns whether the plugin is well, as of a short while ago at most, and follows its key.
func (k *kms) check(ctx context.Context) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.clock.Now().Before(k.until) {
		return k.result
	}
	err := k.checkNow(ctx)
	k.result, k.until = kept(err), k.clock.Now().Add(holds(err))
	return err
}

// sectionError is the failure of a part of a check.
type sectionError struct {
	section, name string
	reason        error
}

// Error is part of error.
func (e *sectionError) Error() string {
	return fmt.Sprintf("failed to perform %s section of the healthz check for KMS Provider %s, error: %v", e.section, e.name, e.reason)
}

// Unwrap is part of error.
func (e *sectionError) Unwrap() error { return e.reason }

// kept is what is said of a check while its result holds. As in kube-apiserver, only who has it made learns which part has failed, and the
// others the reason.
func kept(result error) error {
	if s := (*sectionError)(nil); errors.As(result, &s) {
		return s.reason
	}
	return result
}

// holds is for how long the result of a check holds.
func holds(result error) time.Duration {
	if result != nil {
		return resultIll
	}
	return resultWell
}

func (k *kms) checkNow(ctx context.Context) error {
	answer, err := k.plugin.status(ctx)
	if err != nil {
		return &sectionError{"status", k.name, err}
	}
	errs := k.judge(answer)
	if code, err := validKeyID(answer.KeyId); err != nil {
		k.metrics.invalidKeyIDs.WithLabelValues(k.name, code).Inc()
		errs = append(errs, fmt.Errorf("got invalid KMSv2 KeyID hash %q: %w", hashOf(answer.KeyId), err))
	} else {
		k.metrics.keyTold(k.name, hashOf(answer.KeyId))
		errs = append(errs, k.rotate(ctx, answer.KeyId))
	}
	if err := utilerrors.Reduce(utilerrors.NewAggregate(errs)); err != nil {
		return fmt.Errorf("kmsv2 Provider %s is not healthy, error: %w", k.name, err)
	}
	return nil
}

// judge returns what is wrong with a status, but for the key.
func (k *kms) judge(answer *kmsapi.StatusResponse) (errs []error) {
	if answer.Healthz != "ok" {
		errs = append(errs, fmt.Errorf("got unexpected healthz status: %s", answer.Healthz))
	}
	if answer.Version != "v2" && answer.Version != "v2beta1" {
		return append(errs, fmt.Errorf("expected KMSv2 API version %s, got %s", "v2", answer.Version))
	}
	if k.api == "" {
		k.api = answer.Version
	}
	if k.api != answer.Version {
		errs = append(errs, fmt.Errorf("KMSv2 API version should not change after the initial status response version %s, got %s", k.api, answer.Version))
	}
	return errs
}
