package core

import (
	"context"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/kanzen-io/kanzen/internal/engine"
)

// createToken serves serviceaccounts/NAME/token.
func createToken(d Deps) func(context.Context, string, engine.Object, engine.Check, *metav1.CreateOptions) (runtime.Object, error) {
	return func(ctx context.Context, name string, body engine.Object, check engine.Check, _ *metav1.CreateOptions) (runtime.Object, error) {
		r, ok := body.(*authenticationv1.TokenRequest)
		if !ok {
			return nil, apierrors.NewBadRequest(fmt.Sprintf("a token request is needed, not %T", body))
		}
		return d.CreateToken(ctx, namespaceOf(ctx, r), name, r, func(ctx context.Context, r *authenticationv1.TokenRequest) error { return check(ctx, r) })
	}
}
