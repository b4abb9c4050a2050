package suite

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/ginkgo/v2/types"
	"github.com/onsi/gomega"
	"k8s.io/component-base/logs"
	conformancetestdata "k8s.io/kubernetes/test/conformance/testdata"
	"k8s.io/kubernetes/test/e2e/common"
	"k8s.io/kubernetes/test/e2e/framework"
	"k8s.io/kubernetes/test/e2e/framework/config"
	"k8s.io/kubernetes/test/e2e/framework/testfiles"
	testingmanifests "k8s.io/kubernetes/test/e2e/testing-manifests"
	"k8s.io/kubernetes/test/fixtures"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/conformance/specs"
)

const description = "Kubernetes without nodes"

var (
	listName = flag.String("list", "", "the list of specs to run; without one, only check that all listed specs exist")
	only     = flag.String("only", "", "of the list, run only the specs that match this regular expression")
	limit    = flag.Duration("limit", 0, "end each spec after this time; 0 is never")
)

func TestMain(m *testing.M) {
	config.CopyFlags(config.Flags, flag.CommandLine)
	framework.RegisterCommonFlags(flag.CommandLine)
	framework.RegisterClusterFlags(flag.CommandLine)
	flag.Parse()
	testfiles.AddFileSource(testingmanifests.GetE2ETestingManifestsFS())
	testfiles.AddFileSource(fixtures.GetTestFixturesFS())
	testfiles.AddFileSource(conformancetestdata.GetConformanceTestdataFS())
	ginkgo.AddTreeConstructionNodeArgsTransformer(slowFirst)
	ginkgo.AddTreeConstructionNodeArgsTransformer(limited)
	framework.AfterReadingAllFlags(&framework.TestContext)
	os.Exit(m.Run())
}

// slow are specs that take a minute and more on any server, by the text of
// their last node. Started last, they would make the whole run that much longer.
var slow = []string{
	"should support orphan deletion of custom resources",
	"should support cascading deletion of custom resources",
	"watch on custom resource definition objects",
	"should apply changes to a resourcequota status",
}

// slowFirst gives the slow specs priority.
func slowFirst(node types.NodeType, _ ginkgo.Offset, text string, args []any) (string, []any, []error) {
	if !node.Is(types.NodeTypeIt) {
		return text, args, nil
	}
	isSlow := slices.Contains(slow, text)
	for _, arg := range args { // upstream's own It has the text among the arguments
		part, ok := arg.(string)
		isSlow = isSlow || ok && slices.Contains(slow, part)
	}
	if isSlow {
		args = append(args, ginkgo.SpecPriority(2)) // upstream's own [Slow] is 1
	}
	return text, args, nil
}

// limited gives specs the time limit that --limit names. Those without a context cannot be
// ended.
func limited(node types.NodeType, _ ginkgo.Offset, text string, args []any) (string, []any, []error) {
	if *limit == 0 || !node.Is(types.NodeTypeIt) {
		return text, args, nil
	}
	for _, arg := range args {
		if body := reflect.TypeOf(arg); body != nil && body.Kind() == reflect.Func && body.NumIn() == 1 {
			return text, append(args, ginkgo.SpecTimeout(*limit)), nil
		}
	}
	return text, args, nil
}

// complete are the lists of which this build has all specs.
var complete = []string{specs.Generic, specs.OptIn, specs.Fast}

// TestListedSpecsExist fails if upstream has no spec of that name, or has
// renamed it.
func TestListedSpecsExist(t *testing.T) {
	exist := map[string]bool{}
	for _, spec := range ginkgo.PreviewSpecs(description).SpecReports {
		exist[spec.FullText()] = true
	}
	for _, name := range complete {
		list, err := specs.Load(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, spec := range list.Specs {
			if !exist[spec] {
				t.Errorf("%s.txt lists %q, which upstream's suite does not have", name, spec)
			}
		}
	}
}

// TestSpecs runs the list that --list names against the server that
// --kubeconfig names.
func TestSpecs(t *testing.T) {
	if *listName == "" {
		return // there is no server; TestListedSpecsExist is all that can be said
	}
	list, err := specs.Load(*listName)
	if err != nil {
		t.Fatal(err)
	}
	pattern, err := regexp.Compile(*only)
	if err != nil {
		t.Fatalf("read --only: %v", err)
	}
	suiteConfig, reporterConfig := ginkgo.GinkgoConfiguration()
	var texts []string
	for _, spec := range list.Only(pattern).Specs {
		texts = append(texts, regexp.QuoteMeta(spec))
	}
	// One sorted alternative, which shares prefixes: as an expression for each spec, a
	// thousand of them take minutes to match.
	slices.Sort(texts)
	suiteConfig.FocusStrings = []string{"^" + regexp.QuoteMeta(description) + " (?:" + strings.Join(texts, "|") + ")$"}
	suiteConfig.SkipStrings = nil
	suiteConfig.RandomizeAllSpecs = true // priorities work on what is shuffled
	logs.InitLogs()
	defer logs.FlushLogs()
	gomega.RegisterFailHandler(framework.Fail)
	ginkgo.RunSpecs(t, description, suiteConfig, reporterConfig)
}

// The set-up: every process checks that it reaches the server.
var _ = ginkgo.SynchronizedBeforeSuite(func(context.Context) {}, func(ctx context.Context) {
	common.CurrentSuite = common.E2E
	framework.TestContext.IPFamily = "ipv4" // upstream asks the Service default/kubernetes
	client, err := framework.LoadClientset()
	framework.ExpectNoError(err, "load the client")
	gomega.Eventually(ctx, func(ctx context.Context) error {
		_, err := client.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(ctx)
		return err
	}).WithTimeout(time.Minute).Should(gomega.Succeed(), "ask the server whether it is ready")
})

// When all specs have ended, upstream's reports on the whole suite follow, in
// the first process. See withoutPods for what they need.
var _ = ginkgo.SynchronizedAfterSuite(func(context.Context) {}, func(context.Context) {
	config, err := framework.LoadConfig()
	framework.ExpectNoError(err, "load the client configuration")
	server, err := withoutPods(config)
	framework.ExpectNoError(err, "serve the API without pods")
	framework.TestContext.KubeConfig, err = writeKubeconfig(filepath.Join(os.TempDir(), fmt.Sprintf("without-pods-%d", os.Getpid())), server.URL)
	framework.ExpectNoError(err, "write a kubeconfig for the API without pods")
	framework.TestContext.KubeContext, framework.TestContext.Host = "", server.URL
})
