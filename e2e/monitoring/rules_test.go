package monitoring

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
)

// rulesFile has the alert rules, and testsFile the tests of `promtool test rules`.
const rulesFile, testsFile = "../../packaging/monitoring/alerts.yaml", "alerts_test.yaml"

// promtool builds promtool.
func promtool(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "promtool")
	cmd := exec.Command("go", "build", "-tags", "remove_all_sd", "-o", path, "github.com/prometheus/prometheus/cmd/promtool")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build promtool: %v\n%s", err, out)
	}
	return path
}

// TestAlertRules: promtool accepts the rules; each alert fires when it should and not
// when it should not, and what it tells is right.
func TestAlertRules(t *testing.T) {
	binary := promtool(t)
	for _, args := range [][]string{{"check", "rules", "--lint=all", "--lint-fatal", rulesFile}, {"test", "rules", testsFile}} {
		if out, err := exec.Command(binary, args...).CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	t.Run("mistakes are noticed", func(t *testing.T) { mistakes(t, binary) })
}

// mistakes checks that promtool fails for a rule that cannot be parsed, and for a test
// that expects another alert than the one that fires.
func mistakes(t *testing.T, binary string) {
	dir := t.TempDir()
	for name, content := range map[string]string{
		"broken.yaml": "groups: [{name: g, rules: [{alert: A, expr: 'sum by (instance (up)'}]}]",
		"rules.yaml":  "groups: [{name: g, rules: [{alert: A, expr: up == 0, for: 2m}]}]",
		"tests.yaml": `rule_files: [rules.yaml]
tests:
- interval: 1m
  input_series: [{series: up, values: '1 0x5'}]
  alert_rule_test: [{eval_time: 2m, alertname: A, exp_alerts: [{}]}]
`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for want, args := range map[string][]string{
		"broken.yaml": {"check", "rules", filepath.Join(dir, "broken.yaml")},
		"got:[]":      {"test", "rules", filepath.Join(dir, "tests.yaml")},
	} {
		if out, err := exec.Command(binary, args...).CombinedOutput(); err == nil || !strings.Contains(string(out), want) {
			t.Errorf("promtool %s: %v, without %q:\n%s", strings.Join(args, " "), err, want, out)
		}
	}
}

// TestEachAlertIsTested: each rule has a test in which it fires and one in which it does
// not.
func TestEachAlertIsTested(t *testing.T) {
	var rules struct {
		Groups []struct {
			Rules []struct{ Alert string }
		}
	}
	var suite struct {
		Tests []struct {
			Alerts []struct {
				Alert    string `yaml:"alertname"`
				Expected []any  `yaml:"exp_alerts"`
			} `yaml:"alert_rule_test"`
		}
	}
	read(t, rulesFile, &rules)
	read(t, testsFile, &suite)
	var fires, silent []string
	for _, unit := range suite.Tests {
		for _, test := range unit.Alerts {
			if len(test.Expected) > 0 {
				fires = append(fires, test.Alert)
			} else {
				silent = append(silent, test.Alert)
			}
		}
	}
	for _, group := range rules.Groups {
		for _, rule := range group.Rules {
			if !slices.Contains(fires, rule.Alert) || !slices.Contains(silent, rule.Alert) {
				t.Errorf("%s lacks a test in which it fires, or one in which it does not", rule.Alert)
			}
		}
	}
	if len(fires) == 0 {
		t.Errorf("%s has no tests", testsFile)
	}
}

func read(t *testing.T, file string, into any) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(data, into); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}
