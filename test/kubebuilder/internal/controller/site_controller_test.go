package controller

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest/komega"

	"github.com/kanzen-io/kanzen/pkg/envtest"

	webv1 "example.com/sites/api/v1"
)

var _ = Describe("Site Controller", func() {
	const timeout, interval = 30 * time.Second, 10 * time.Millisecond

	It("writes the page, repairs it, and leaves an archive", func() {
		site := &webv1.Site{ObjectMeta: metav1.ObjectMeta{Name: "home", Namespace: "default"}, Spec: webv1.SiteSpec{Title: "Hello"}}
		Expect(k8sClient.Create(ctx, site)).To(Succeed())
		key := client.ObjectKeyFromObject(site)

		page := &corev1.ConfigMap{}
		Eventually(func(g Gomega) {
			g.Expect(k8sClient.Get(ctx, key, page)).To(Succeed())
			g.Expect(page.Data).To(HaveKeyWithValue("index.html", "<h1>Hello</h1>"))
			g.Expect(metav1.IsControlledBy(page, site)).To(BeTrue())
			g.Expect(k8sClient.Get(ctx, key, site)).To(Succeed())
			g.Expect(site.Finalizers).To(ContainElement(Finalizer))
			g.Expect(meta.IsStatusConditionTrue(site.Status.Conditions, "Ready")).To(BeTrue())
		}, timeout, interval).Should(Succeed())

		Expect(k8sClient.Delete(ctx, page)).To(Succeed())
		Eventually(func() error { return k8sClient.Get(ctx, key, &corev1.ConfigMap{}) }, timeout, interval).Should(Succeed())

		Expect(k8sClient.Delete(ctx, site)).To(Succeed())
		Eventually(func() bool { return apierrors.IsNotFound(k8sClient.Get(ctx, key, site)) }, timeout, interval).Should(BeTrue())
		archive := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "home-archive", Namespace: "default"}}
		komega.SetClient(k8sClient)
		Eventually(komega.Object(archive), timeout, interval).Should(HaveField("Data", HaveKeyWithValue("title", "Hello")))
	})

	It("is refused what the schema forbids", func() {
		site := &webv1.Site{ObjectMeta: metav1.ObjectMeta{Name: "bad", Namespace: "default"}}
		Expect(apierrors.IsInvalid(k8sClient.Create(ctx, site))).To(BeTrue())
	})

	It("knows users", func() {
		user, err := testEnv.AddUser(envtest.User{Name: "reader", Groups: []string{"readers"}}, nil)
		Expect(err).NotTo(HaveOccurred())
		c, err := client.New(user.Config(), client.Options{Scheme: k8sClient.Scheme()})
		Expect(err).NotTo(HaveOccurred())
		Expect(apierrors.IsForbidden(c.List(ctx, &corev1.SecretList{}))).To(BeTrue())
		Expect(testEnv.KubeConfig).NotTo(BeEmpty())
	})
})
