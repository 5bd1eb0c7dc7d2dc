package certificates

import (
	"context"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kanzen-io/kanzen/internal/builtin/rules"
)

func validate(_ context.Context, o *certificatesv1.CertificateSigningRequest) field.ErrorList {
	return rules.ObjectMeta(&o.ObjectMeta, false, rules.Subdomain)
}

func validateUpdate(_ context.Context, o, old *certificatesv1.CertificateSigningRequest) field.ErrorList {
	return rules.ObjectMetaUpdate(&o.ObjectMeta, &old.ObjectMeta)
}

func validateApproval(_ context.Context, o, old *certificatesv1.CertificateSigningRequest) field.ErrorList {
	return rules.ObjectMetaUpdate(&o.ObjectMeta, &old.ObjectMeta)
}

func validateStatus(_ context.Context, o, old *certificatesv1.CertificateSigningRequest) field.ErrorList {
	return rules.ObjectMetaUpdate(&o.ObjectMeta, &old.ObjectMeta)
}
