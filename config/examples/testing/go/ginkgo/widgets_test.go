package ginkgo

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// timeout is generous: a loaded machine must not fail a test.
const timeout = time.Minute

var _ = Describe("Widgets", func() {
	var namespace *corev1.Namespace

	BeforeEach(func(ctx SpecContext) {
		namespace = &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}
		Expect(api.Create(ctx, namespace)).To(Succeed())
	})

	widget := func(size int64) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "example.com/v1", "kind": "Widget",
			"metadata": map[string]any{"name": "one", "namespace": namespace.Name}, "spec": map[string]any{"size": size},
		}}
	}

	It("are validated", func(ctx SpecContext) {
		Expect(apierrors.IsInvalid(api.Create(ctx, widget(12)))).To(BeTrue())
		Expect(api.Create(ctx, widget(3))).To(Succeed())
	})

	// Workloads are stored, and nothing runs them.
	It("own Deployments, which the garbage collector deletes with them", func(ctx SpecContext) {
		owner := widget(3)
		Expect(api.Create(ctx, owner)).To(Succeed())
		labels := map[string]string{"app": "one"}
		deployment := &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{
				Name: "one", Namespace: namespace.Name,
				OwnerReferences: []metav1.OwnerReference{{APIVersion: "example.com/v1", Kind: "Widget", Name: "one", UID: owner.GetUID()}},
			},
			Spec: appsv1.DeploymentSpec{
				Selector: &metav1.LabelSelector{MatchLabels: labels},
				Template: corev1.PodTemplateSpec{
					ObjectMeta: metav1.ObjectMeta{Labels: labels},
					Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "one", Image: "one"}}},
				},
			},
		}
		Expect(api.Create(ctx, deployment)).To(Succeed())
		Expect(api.Delete(ctx, owner)).To(Succeed())
		Eventually(func() bool {
			return apierrors.IsNotFound(api.Get(ctx, client.ObjectKeyFromObject(deployment), deployment))
		}).WithContext(ctx).WithTimeout(timeout).Should(BeTrue())
	})

	It("are deleted with their namespace", func(ctx SpecContext) {
		Expect(api.Create(ctx, widget(3))).To(Succeed())
		Expect(api.Delete(ctx, namespace)).To(Succeed())
		Eventually(func() bool {
			return apierrors.IsNotFound(api.Get(ctx, client.ObjectKeyFromObject(namespace), namespace))
		}).WithContext(ctx).WithTimeout(timeout).Should(BeTrue())
	})
})
