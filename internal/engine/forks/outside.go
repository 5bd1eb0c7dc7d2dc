package forks

import (
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/kanzen-io/kanzen/internal/engine"
)

// ErrOutside refuses what would have an effect outside of a fork.
var ErrOutside = &apierrors.StatusError{ErrStatus: metav1.Status{
	Status: metav1.StatusFailure, Code: http.StatusMethodNotAllowed, Reason: metav1.StatusReasonMethodNotAllowed,
	Message: "a fork does not do this, because it would have an effect outside of the fork",
}}

// Connect stands for the subresources that reach kubelets, pods and services: from a fork nothing is reached.
func Connect(http.ResponseWriter, *http.Request, *engine.Subresource, runtime.Object) error {
	return ErrOutside
}
