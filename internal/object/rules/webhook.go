package rules

import (
	"fmt"
	"net/url"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// urlForm ends messages about URLs.
const urlForm = "; desired format: https://host[/path]"

// WebhookURL validates the URL of a webhook.
func WebhookURL(text string, e Errors) {
	u, err := url.Parse(text)
	if err != nil {
		e.Required("url must be a valid URL: " + err.Error() + urlForm)
		return
	}
	if u.Scheme != "https" {
		e.Invalid(u.Scheme, "'https' is the only allowed URL scheme"+urlForm)
	}
	if u.Host == "" {
		e.Invalid(u.Host, "host must be specified"+urlForm)
	}
	if u.User != nil {
		e.Invalid(u.User.String(), "user information is not permitted in the URL")
	}
	if u.Fragment != "" {
		e.Invalid(u.Fragment, "fragments are not permitted in the URL")
	}
	if u.RawQuery != "" {
		e.Invalid(u.RawQuery, "query parameters are not permitted in the URL")
	}
}

// WebhookService validates a webhook's reference to a service.
func WebhookService(namespace, name string, path *string, port int32, e Errors) {
	e.Present("name", name)
	e.Present("namespace", namespace)
	e.ServicePort(port)
	if path == nil || *path == "" || *path == "/" {
		return
	}
	at := e.Field("path")
	if !strings.HasPrefix(*path, "/") {
		at.Invalid(*path, "must start with a '/'")
	}
	if *path == "//" {
		at.Invalid(*path, "segment[0] may not be empty")
		return
	}
	// Remove the first character, slash or not, and one slash at the end.
	for i, segment := range strings.Split(strings.TrimSuffix((*path)[1:], "/"), "/") {
		if segment == "" {
			at.Invalid(*path, fmt.Sprintf("segment[%d] may not be empty", i))
			continue
		}
		for _, m := range validation.IsDNS1123Subdomain(segment) {
			at.Invalid(*path, fmt.Sprintf("segment[%d]: %s", i, m))
		}
	}
}
