package monitoring

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql"
	"gopkg.in/yaml.v3"
)

// suite is a file in the format of `promtool test rules`, as far as it is used here.
type suite struct {
	RuleFiles []string `yaml:"rule_files"`
	Tests     []unit   `yaml:"tests"`
}

type unit struct {
	Name        string         `yaml:"name"`
	Interval    model.Duration `yaml:"interval"`
	InputSeries []input        `yaml:"input_series"`
	AlertTests  []struct {
		EvalTime  model.Duration `yaml:"eval_time"`
		Alert     string         `yaml:"alertname"`
		ExpAlerts []struct {
			Labels map[string]string `yaml:"exp_labels"`
		} `yaml:"exp_alerts"`
	} `yaml:"alert_rule_test"`
}

type input struct{ Series, Values string }

// TestAlertRules: each alert fires when it should and not when it should not.
func TestAlertRules(t *testing.T) {
	tests := suite{}
	read(t, "alerts_test.yaml", &tests)
	if len(tests.RuleFiles) != 1 {
		t.Fatalf("rule files: %v", tests.RuleFiles)
	}
	content, err := os.ReadFile(tests.RuleFiles[0])
	if err != nil {
		t.Fatal(err)
	}
	groups, errs := rulefmt.Parse(content, false, model.UTF8Validation)
	if len(errs) > 0 {
		t.Fatalf("%s: %v", tests.RuleFiles[0], errs)
	}
	rules := map[string]rulefmt.Rule{}
	for _, group := range groups.Groups {
		for _, rule := range group.Rules {
			rules[rule.Alert] = rule
		}
	}
	fires, silent := map[string]bool{}, map[string]bool{}
	for _, unit := range tests.Tests {
		for _, test := range unit.AlertTests {
			t.Run(unit.Name+"/"+test.Alert+"/"+test.EvalTime.String(), func(t *testing.T) {
				rule, found := rules[test.Alert]
				if !found {
					t.Fatalf("there is no alert %s", test.Alert)
				}
				var want []string
				for _, alert := range test.ExpAlerts {
					want = append(want, labels.FromMap(alert.Labels).String())
				}
				got := firing(t, rule, unit, time.Duration(test.EvalTime))
				slices.Sort(want)
				if !slices.Equal(got, want) {
					t.Errorf("alerts with %s fire, want %s", got, want)
				}
				fires[test.Alert], silent[test.Alert] = fires[test.Alert] || len(want) > 0, silent[test.Alert] || len(want) == 0
			})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(rules)) {
		if !fires[name] || !silent[name] {
			t.Errorf("%s: no test in which it fires (%t), or none in which it does not (%t)", name, !fires[name], !silent[name])
		}
	}
}

func read(t *testing.T, file string, into any) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	decoder := yaml.NewDecoder(strings.NewReader(string(data)))
	decoder.KnownFields(true)
	if err := decoder.Decode(into); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}

// firing evaluates the rule in each interval until at, as Prometheus does, and returns
// the labels of the alerts that fire then.
func firing(t *testing.T, rule rulefmt.Rule, unit unit, at time.Duration) []string {
	t.Helper()
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 1_000_000, Timeout: time.Minute, EnableAtModifier: true, EnableNegativeOffset: true})
	defer func() { _ = engine.Close() }() // it has no query log
	data := load(t, unit)
	since := map[string]time.Duration{}
	for now := time.Duration(0); now <= at; now += time.Duration(unit.Interval) {
		active := evaluate(t, engine, data, rule, now)
		for alert := range since {
			if !active[alert] {
				delete(since, alert)
			}
		}
		for alert := range active {
			if _, known := since[alert]; !known {
				since[alert] = now
			}
		}
	}
	var alerts []string
	for alert, began := range since {
		if at-began >= time.Duration(rule.For) {
			alerts = append(alerts, alert)
		}
	}
	slices.Sort(alerts)
	return alerts
}

// evaluate returns the labels of the alerts that the expression gives at a time after
// the epoch.
func evaluate(t *testing.T, engine *promql.Engine, data *memory, rule rulefmt.Rule, now time.Duration) map[string]bool {
	t.Helper()
	query, err := engine.NewInstantQuery(context.Background(), data, nil, rule.Expr, time.UnixMilli(now.Milliseconds()))
	if err != nil {
		t.Fatal(err)
	}
	defer query.Close()
	vector, err := query.Exec(context.Background()).Vector()
	if err != nil {
		t.Fatal(err)
	}
	active := map[string]bool{}
	for _, sample := range vector {
		alert := labels.NewBuilder(sample.Metric).Del(model.MetricNameLabel)
		for name, value := range rule.Labels {
			alert.Set(name, value)
		}
		active[alert.Labels().String()] = true
	}
	return active
}

// TestMistakesAreNoticed: an expression with a mistake is an error, and `for` counts.
func TestMistakesAreNoticed(t *testing.T) {
	const rules = "groups: [{name: g, rules: [{alert: A, expr: 'sum by (instance (up)'}]}]"
	if _, errs := rulefmt.Parse([]byte(rules), false, model.UTF8Validation); len(errs) == 0 {
		t.Error("an expression that cannot be parsed is accepted")
	}
	series := unit{Interval: model.Duration(time.Minute), InputSeries: []input{{Series: "up", Values: "1 0x5"}}}
	rule := rulefmt.Rule{Expr: "up == 0", For: model.Duration(2 * time.Minute)}
	for at, want := range map[time.Duration]int{0: 0, 2 * time.Minute: 0, 3 * time.Minute: 1} {
		if got := firing(t, rule, series, at); len(got) != want {
			t.Error(fmt.Sprint("at ", at, ": ", got))
		}
	}
}
