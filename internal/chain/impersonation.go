package chain

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/access/authn"
	"github.com/kanzen-io/kanzen/internal/access/authz"
	"github.com/kanzen-io/kanzen/internal/request"
)

// ImpersonationObserver is told, for metrics, of each attempt to impersonate and of each check by the authorizer. The
// mode of a failed attempt is empty.
type ImpersonationObserver interface {
	ImpersonationAttempted(mode string, allowed bool, took time.Duration)
	ImpersonationAuthorized(mode string, allowed bool, took time.Duration)
}

// Impersonation serves a request as the user that its headers name, if its sender may impersonate that user. It removes
// the headers. Constrained adds the modes that allow impersonation for some actions only. The observer is optional.
func Impersonation(a authz.Authorizer, constrained bool, clk clock.PassiveClock, o ImpersonationObserver, writeError ErrorWriter) Filter {
	if o == nil {
		o = unobserved{}
	}
	modes := &impersonationModes{all: allImpersonationModes(constrained)}
	allowed := &impersonationCache{clock: clk}
	return func(next Handler) Handler {
		return func(w http.ResponseWriter, r *http.Request) {
			if !asksToImpersonate(r.Header) {
				next(w, r)
				return
			}
			wanted, err := impersonated(r.Header, constrained)
			if err == nil && wanted == nil {
				next(w, r)
				return
			}
			if err == nil {
				ctx, began := r.Context(), clk.Now()
				asked := authz.ForRequest(request.UserFrom(ctx), request.InfoFrom(ctx))
				c := &impersonationCheck{authorizer: a, wanted: wanted, asked: asked, allowed: allowed, clock: clk, observer: o}
				var mode string
				wanted, mode, err = modes.anyOf(ctx, c)
				o.ImpersonationAttempted(mode, err == nil, clk.Since(began))
			}
			if err != nil {
				noSniff(w.Header())
				writeError(w, r, err)
				return
			}
			request.Identify(r.Context(), wanted)
			next(w, r.WithContext(request.WithUser(r.Context(), wanted)))
		}
	}
}

// unobserved is the observer that does nothing.
type unobserved struct{}

func (unobserved) ImpersonationAttempted(string, bool, time.Duration)  {}
func (unobserved) ImpersonationAuthorized(string, bool, time.Duration) {}

func asksToImpersonate(h http.Header) bool {
	for name := range h {
		if strings.HasPrefix(name, "Impersonate-") {
			return true
		}
	}
	return false
}

// impersonated reads the wanted user from the headers; nil if they name none. It does not add groups that follow from the
// name. Constrained changes only the words about what is wrong.
func impersonated(h http.Header, constrained bool) (*user.DefaultInfo, error) {
	u := &user.DefaultInfo{
		Name:   h.Get(authenticationv1.ImpersonateUserHeader),
		UID:    h.Get(authenticationv1.ImpersonateUIDHeader),
		Groups: slices.Clone(h.Values(authenticationv1.ImpersonateGroupHeader)),
	}
	hasExtra := false
	for name, values := range h {
		rest, ok := strings.CutPrefix(name, authenticationv1.ImpersonateUserExtraHeaderPrefix)
		if !ok {
			continue
		}
		hasExtra = true
		if len(values) == 0 {
			continue
		}
		if u.Extra == nil {
			u.Extra = map[string][]string{}
		}
		key := authn.ExtraKey(rest)
		u.Extra[key] = append(u.Extra[key], values...)
	}
	if u.Name == "" {
		if u.UID != "" || len(u.Groups) > 0 || hasExtra {
			if !constrained {
				return nil, apierrors.NewBadRequest(fmt.Sprintf("requested %v without impersonating a user", references(u)))
			}
			return nil, apierrors.NewBadRequest(fmt.Sprintf("requested %#v without impersonating a user name", u))
		}
		return nil, nil
	}
	clearImpersonation(h)
	return u, nil
}

// references are a user's groups and the rest as objects, one for each question to the authorizer.
func references(u *user.DefaultInfo) (out []corev1.ObjectReference) {
	for _, group := range u.Groups {
		out = append(out, corev1.ObjectReference{Kind: "Group", Name: group})
	}
	version := authenticationv1.SchemeGroupVersion.String()
	for _, key := range slices.Sorted(maps.Keys(u.Extra)) {
		for _, value := range u.Extra[key] {
			out = append(out, corev1.ObjectReference{Kind: "UserExtra", APIVersion: version, Name: value, FieldPath: key})
		}
	}
	if u.UID != "" {
		out = append(out, corev1.ObjectReference{Kind: "UID", APIVersion: version, Name: u.UID})
	}
	return out
}

// clearImpersonation removes the headers, so that no server behind this one impersonates again.
func clearImpersonation(h http.Header) {
	h.Del(authenticationv1.ImpersonateUserHeader)
	h.Del(authenticationv1.ImpersonateUIDHeader)
	h.Del(authenticationv1.ImpersonateGroupHeader)
	for name := range h {
		if strings.HasPrefix(name, authenticationv1.ImpersonateUserExtraHeaderPrefix) {
			delete(h, name)
		}
	}
}
