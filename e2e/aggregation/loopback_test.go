package aggregation

import (
	"encoding/json"
	"net/http"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// TestWebhookBehindAnAggregatedServer: a webhook at the Service
// default/kubernetes is this server, which hands the review to the aggregated
// one, with a caBundle and without. The review is made with the rights that RBAC gives to
// webhooks.
func TestWebhookBehindAnAggregatedServer(t *testing.T) {
	t.Parallel()
	const group, path = "reviewed.example.com", "/apis/reviewed.example.com/v1alpha1/reviews"
	ca := newAuthority(t)
	mux := http.NewServeMux()
	mux.Handle("/", discovery(group))
	mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
		review := admissionv1.AdmissionReview{}
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Result: &metav1.Status{Message: "the aggregated server says no"}}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(review) // the client shows what is missing
	})
	e := newEnvironment(t)
	e.endpoint("reviews", "api", serve(t, ca.keyPair(t, "api.reviews.svc"), mux))
	e.apiService(group, "reviews", "api", ca.bundle)
	e.waitAvailable(group, "True", "Passed")
	e.Kubectl("{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: reviews}, rules: [{apiGroups: ["+group+"], resources: [reviews], verbs: [create]}]}", "create", "-f", "-")
	e.Kubectl("", "create", "clusterrolebinding", "reviews", "--clusterrole=reviews", "--user=system:kube-hyper-mini:webhooks")
	w := &webhooks{environment: e, ca: ca}
	for name, bundle := range map[string][]byte{"with": ca.bundle, "without": nil} {
		namespace := unique(name)
		e.createNamespace(namespace)
		client := admissionregistrationv1.WebhookClientConfig{
			Service:  &admissionregistrationv1.ServiceReference{Namespace: "default", Name: "kubernetes", Path: ptr.To(path)},
			CABundle: bundle,
		}
		w.validate(validating(namespace, client, rule("", "v1", "configmaps", admissionregistrationv1.Create)))
		_ = w.waitDenied(namespace, harmless, "the aggregated server says no")
	}
}
