package kubeconfig

import (
	"context"
	"fmt"
	"net"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"kube-hyper-mini.io/kube-hyper-mini/internal/datadir"
)

// scrapeRole is the ClusterRole that may read the metrics.
const scrapeRole = "kube-hyper-mini:metrics"

// PrometheusFile is the file of [WriteScrapeJob].
const PrometheusFile = "prometheus.yaml"

// AllowScraping makes the service account, its namespace, and the right to read the
// metrics, as far as they do not exist.
func AllowScraping(ctx context.Context, client kubernetes.Interface, namespace, name string) error {
	user := "system:serviceaccount:" + namespace + ":" + name
	steps := []struct {
		what   string
		create func() error
	}{
		{"namespace " + namespace, func() error {
			_, err := client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
			return err
		}},
		{"service account " + namespace + "/" + name, func() error {
			_, err := client.CoreV1().ServiceAccounts(namespace).Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
			return err
		}},
		{"ClusterRole " + scrapeRole, func() error {
			_, err := client.RbacV1().ClusterRoles().Create(ctx, &rbacv1.ClusterRole{
				ObjectMeta: metav1.ObjectMeta{Name: scrapeRole},
				Rules:      []rbacv1.PolicyRule{{Verbs: []string{"get"}, NonResourceURLs: []string{"/metrics", "/metrics/slis"}}},
			}, metav1.CreateOptions{})
			return err
		}},
		{"ClusterRoleBinding of " + user, func() error {
			_, err := client.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
				ObjectMeta: metav1.ObjectMeta{Name: scrapeRole + ":" + namespace + ":" + name},
				RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: scrapeRole},
				Subjects:   []rbacv1.Subject{subjectOf(user)},
			}, metav1.CreateOptions{})
			return err
		}},
	}
	for _, step := range steps {
		if err := step.create(); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("make the %s: %w", step.what, err)
		}
	}
	return nil
}

// WriteScrapeJob writes a configuration of Prometheus that scrapes the server with the
// token and the authority that [WriteInCluster] has written into the directory.
func WriteScrapeJob(dir string, endpoint Endpoint) error {
	host, port, err := HostPort(endpoint.Server)
	if err != nil {
		return err
	}
	data, err := yaml.Marshal(map[string]any{"scrape_configs": []any{map[string]any{
		"job_name": Name, "scheme": "https",
		"authorization":  map[string]any{"credentials_file": TokenFile},
		"tls_config":     map[string]any{"ca_file": CAFile},
		"static_configs": []any{map[string]any{"targets": []string{net.JoinHostPort(host, port)}}},
	}}})
	if err != nil {
		return fmt.Errorf("render the scrape job: %w", err)
	}
	return datadir.WriteFile(filepath.Join(dir, PrometheusFile), data, 0o644)
}
