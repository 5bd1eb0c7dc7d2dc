// Package webhook has the webhooks of Sites. A file of webhook-VERSION beside it registers them, in the form that they have from
// that version of controller-runtime on.
package webhook

import (
	"errors"

	webv1 "example.com/sites/api/v1"
)

func setDefaults(site *webv1.Site) {
	if site.Spec.Theme == "" {
		site.Spec.Theme = "plain"
	}
}

func validate(site *webv1.Site) error {
	if site.Spec.Title == "Lorem ipsum" {
		return errors.New("write something of your own")
	}
	return nil
}
