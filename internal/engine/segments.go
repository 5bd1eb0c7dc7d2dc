package engine

import (
	"fmt"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// checkSegments refuses names and namespaces that would change the meaning of a path: ".."
// and texts with a slash or a percent sign. The errors have kube-apiserver's messages and
// codes.
func (c *call) checkSegments() error {
	if c.name != "" {
		if wrong := content.IsPathSegmentName(c.name); len(wrong) > 0 {
			return apierrors.NewBadRequest(fmt.Sprintf("Name parameter invalid: %q: %s", c.name, strings.Join(wrong, ";")))
		}
	}
	if c.namespace != "" {
		if wrong := content.IsPathSegmentName(c.namespace); len(wrong) > 0 {
			key := "/" + c.R.Plural + "/" + c.namespace
			if c.name != "" {
				key += "/" + c.name
			}
			return &apierrors.StatusError{ErrStatus: metav1.Status{
				Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Message: fmt.Sprintf("invalid key: %q", key),
			}}
		}
	}
	return nil
}
