// Package batch is the API group batch/v1: jobs and cron jobs.
package batch

import (
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/kanzen-io/kanzen/internal/engine"
)

var v1 = batchv1.SchemeGroupVersion

// Resources returns every resource of the group.
func Resources() []*engine.Resource {
	return []*engine.Resource{cronJobs(), jobs()}
}

// warnName warns about names that are not valid in the host names of pods.
func warnName(name string) []string {
	if len(validation.IsDNS1123Label(name)) > 0 {
		return []string{"metadata.name: names of pods and their hosts are made of this; it should be a DNS label"}
	}
	return nil
}
