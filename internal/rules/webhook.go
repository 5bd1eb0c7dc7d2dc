package rules

import (
	"net/url"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// WebhookURL validates the URL of a webhook.
func WebhookURL(text string, e Errors) {
	u, err := url.Parse(text)
	if err != nil {
		e.Required("must be a URL: " + err.Error())
		return
	}
	if u.Scheme != "https" {
		e.Invalid(u.Scheme, "must be https://host[/path]")
	}
	if u.Host == "" {
		e.Invalid(u.Host, "must have a host")
	}
	if u.User != nil {
		e.Invalid(u.User.String(), "must not have a user")
	}
	if u.Fragment != "" {
		e.Invalid(u.Fragment, "must not have a fragment")
	}
	if u.RawQuery != "" {
		e.Invalid(u.RawQuery, "must not have a query")
	}
}

// WebhookService validates a webhook's reference to a service.
func WebhookService(namespace, name string, path *string, port int32, e Errors) {
	e.Present("name", name)
	e.Present("namespace", namespace)
	e.Port("port", port)
	if path == nil || *path == "" || *path == "/" {
		return
	}
	at := e.Field("path")
	if !strings.HasPrefix(*path, "/") {
		at.Invalid(*path, "must start with a slash")
	}
	if *path == "//" {
		at.Invalid(*path, "must not have empty segments")
		return
	}
	// Remove the first character, slash or not, and one slash at the end.
	for _, segment := range strings.Split(strings.TrimSuffix((*path)[1:], "/"), "/") {
		if segment == "" {
			at.Invalid(*path, "must not have empty segments")
			continue
		}
		at.Messages(*path, validation.IsDNS1123Subdomain(segment))
	}
}
