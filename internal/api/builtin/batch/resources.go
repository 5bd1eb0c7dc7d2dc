// Package batch is the API group batch/v1: jobs and cron jobs.
package batch

import (
	batchv1 "k8s.io/api/batch/v1"

	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/object/podspec"
)

var v1 = batchv1.SchemeGroupVersion

// Deps is what the rules of this group need from the rest of the server.
type Deps struct {
	// Pods is what the cluster allows its pods.
	Pods podspec.Policy
}

// Resources returns every resource of the group.
func Resources(d Deps) []*engine.Resource {
	return engine.Kinds(cronJobs(d), jobs(d))
}
