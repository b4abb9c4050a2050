package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"sigs.k8s.io/yaml"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// failing makes the metrics appear that come with a ServiceEndpoint and with a
// webhook that fails.
const failing = `apiVersion: kube-hyper-mini.io/v1alpha1
kind: ServiceEndpoint
metadata: {namespace: default, name: hook}
spec: {targets: ["https://127.0.0.1:1"]}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: hook}
webhooks:
- name: hook.example.com
  clientConfig: {service: {namespace: default, name: hook}}
  rules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]
  failurePolicy: Fail
  sideEffects: None
  admissionReviewVersions: [v1]
`

// TestMonitoringKit: each metric that the alert rules and the dashboard request is
// served, and each rule has a remedy.
func TestMonitoringKit(t *testing.T) {
	t.Parallel()
	asked := map[string]string{}
	for where, expressions := range map[string][]string{"alerts.yaml": alertExpressions(t), "dashboard.json": dashboardExpressions(t)} {
		if len(expressions) < 10 {
			t.Fatalf("%s has only %d expressions", where, len(expressions))
		}
		for _, expression := range expressions {
			for _, name := range metricNames(expression) {
				asked[name] = where
			}
		}
	}
	s := harness.Start(t, "--config", harness.ConfigFile(t, "journal: {destination: "+t.TempDir()+"}"))
	s.Kubectl(failing, "apply", "-f", "-")
	harness.Eventually(t, "every metric is served", func() error {
		if out, err := s.TryKubectl("", "create", "configmap", "-n", "default", "refused", "--dry-run=server"); err == nil {
			return fmt.Errorf("the webhook is not called yet: %s", out)
		}
		parser := expfmt.NewTextParser(model.LegacyValidation)
		families, err := parser.TextToMetricFamilies(strings.NewReader(s.Kubectl("", "get", "--raw", "/metrics")))
		if err != nil {
			return err
		}
		var missing []error
		for _, name := range slices.Sorted(maps.Keys(asked)) {
			if families[name] == nil && families[strings.TrimSuffix(name, "_bucket")] == nil {
				missing = append(missing, fmt.Errorf("%s asks for %s", asked[name], name))
			}
		}
		return errors.Join(missing...)
	})
	metrics := s.Kubectl("", "get", "--raw", "/metrics")
	harness.Contains(t, metrics, "\nkube_hyper_mini_ready 1\n", `kube_hyper_mini_service_endpoint_targets{name="hook",namespace="default"} 1`,
		`kube_hyper_mini_service_endpoint_reachable_targets{name="hook",namespace="default"} 0`, `kube_hyper_mini_backup_last_timestamp_seconds{result="success"} 0`)
}

// notMetrics matches what an expression has besides names of metrics: labels in
// braces and in groupings, texts and durations.
var notMetrics = regexp.MustCompile(`\{[^}]*\}|(by|ignoring|on|without) *\([^)]*\)|\[[^\]]*\]`)

var word = regexp.MustCompile(`\b[a-z][a-z0-9]*(_[a-z0-9]+)+\b`)

// metricNames returns the words of an expression that functions do not have.
func metricNames(expression string) []string {
	var names []string
	for _, name := range word.FindAllString(notMetrics.ReplaceAllString(expression, ""), -1) {
		if name != "histogram_quantile" {
			names = append(names, name)
		}
	}
	return names
}

func alertExpressions(t *testing.T) (expressions []string) {
	t.Helper()
	var rules struct {
		Groups []struct {
			Rules []struct {
				Alert, Expr         string
				Labels, Annotations map[string]string
			}
		}
	}
	readKit(t, "alerts.yaml", func(data []byte) error { return yaml.Unmarshal(data, &rules) })
	for _, group := range rules.Groups {
		for _, rule := range group.Rules {
			if rule.Alert == "" || rule.Labels["severity"] == "" || rule.Annotations["summary"] == "" || rule.Annotations["description"] == "" {
				t.Errorf("the rule %+v lacks a name, a severity, a summary or a description", rule)
			}
			expressions = append(expressions, rule.Expr)
		}
	}
	return expressions
}

func dashboardExpressions(t *testing.T) (expressions []string) {
	t.Helper()
	var dashboard struct {
		Panels []struct {
			Targets []struct{ Expr string }
		}
	}
	readKit(t, "dashboard.json", func(data []byte) error { return json.Unmarshal(data, &dashboard) })
	for _, panel := range dashboard.Panels {
		for _, target := range panel.Targets {
			expressions = append(expressions, target.Expr)
		}
	}
	return expressions
}

func readKit(t *testing.T, name string, decode func([]byte) error) {
	t.Helper()
	data := harness.ReadFile(t, filepath.Join(harness.Root(t), "packaging", "monitoring", name))
	if err := decode(data); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}
