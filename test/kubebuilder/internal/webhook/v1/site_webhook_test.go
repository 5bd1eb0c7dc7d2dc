package v1

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	webv1 "example.com/sites/api/v1"
	webv1beta1 "example.com/sites/api/v1beta1"
)

var _ = Describe("Site Webhook", func() {
	site := func(name, title string) *webv1.Site {
		return &webv1.Site{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}, Spec: webv1.SiteSpec{Title: title}}
	}

	It("sets the default theme", func() {
		s := site("defaulted", "Hello")
		Expect(k8sClient.Create(ctx, s)).To(Succeed())
		Expect(s.Spec.Theme).To(Equal("plain"))
	})

	It("refuses filler", func() {
		Expect(k8sClient.Create(ctx, site("refused", "Lorem ipsum"))).To(MatchError(ContainSubstring("write something of your own")))
	})

	It("converts between versions", func() {
		Expect(k8sClient.Create(ctx, site("converted", "Hello"))).To(Succeed())
		old := &webv1beta1.Site{}
		Expect(k8sClient.Get(ctx, client.ObjectKey{Namespace: "default", Name: "converted"}, old)).To(Succeed())
		Expect(old.Spec.Name).To(Equal("Hello"))
	})
})
