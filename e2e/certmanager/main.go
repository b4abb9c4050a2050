// Command cert-manager is the controller, the webhook and the cainjector of cert-manager,
// each a process of its own:
//
//	cert-manager controller --kubeconfig FILE
//	cert-manager webhook --kubeconfig FILE --secure-port PORT ...
//	cert-manager cainjector --kubeconfig FILE
//
// cert-manager's own commands are modules that the module proxy does not have. The
// controllers are those that a self-signed issuer and its certificates need.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kubernetes "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/klog/v2"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/cert-manager/cert-manager/internal/webhook"
	certmanagerv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	"github.com/cert-manager/cert-manager/pkg/controller"
	"github.com/cert-manager/cert-manager/pkg/controller/cainjector"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/approver"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/selfsigned"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/issuing"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/keymanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/readiness"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/requestmanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/revisionmanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/trigger"
	_ "github.com/cert-manager/cert-manager/pkg/controller/issuers"
	_ "github.com/cert-manager/cert-manager/pkg/issuer/selfsigned"
	"github.com/cert-manager/cert-manager/pkg/webhook/options"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	log := klog.Background()
	ctrl.SetLogger(log)
	if err := run(logr.NewContext(ctx, log), os.Args[1:]); err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	parts := map[string]func(context.Context, []string) error{"controller": runController, "webhook": runWebhook, "cainjector": runInjector}
	if len(args) == 0 || parts[args[0]] == nil {
		return errors.New("usage: cert-manager controller|webhook|cainjector [flags]")
	}
	return parts[args[0]](ctx, args[1:])
}

// runController runs all controllers that are linked in.
func runController(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("controller", flag.ContinueOnError)
	kubeconfig := flags.String("kubeconfig", "", "the access to the server")
	flags.String("controllers", "*", "ignored: challenges and ingress-shim are not linked in")
	if err := flags.Parse(args); err != nil {
		return err
	}
	factory, err := controller.NewContextFactory(ctx, controller.ContextOptions{
		Kubeconfig: *kubeconfig, IssuerOptions: controller.IssuerOptions{ClusterResourceNamespace: "cert-manager"},
		SchedulerOptions: controller.SchedulerOptions{MaxConcurrentChallenges: 1},
	})
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	var runs []controller.Interface
	for name, build := range controller.Known() {
		built, err := build(factory)
		if err != nil {
			return fmt.Errorf("make the controller %s: %w", name, err)
		}
		runs = append(runs, built)
	}
	shared, err := factory.Build()
	if err != nil {
		return err
	}
	for run := range slices.Values(runs) {
		group.Go(func() error { return run.Run(1, ctx) })
	}
	shared.SharedInformerFactory.Start(ctx.Done())
	shared.KubeSharedInformerFactory.Start(ctx.Done())
	return group.Wait()
}

// runWebhook serves the validation, with a certificate of its own authority.
func runWebhook(ctx context.Context, args []string) error {
	config, err := options.NewWebhookConfiguration()
	if err != nil {
		return err
	}
	flags := pflag.NewFlagSet("webhook", pflag.ContinueOnError)
	options.AddConfigFlags(flags, config)
	if err := flags.Parse(args); err != nil {
		return err
	}
	serving, err := webhook.NewCertManagerWebhookServer(logr.FromContextOrDiscard(ctx), *config)
	if err != nil {
		return err
	}
	return serving.Run(ctx)
}

// runInjector writes authorities into webhooks.
func runInjector(ctx context.Context, args []string) error {
	flag.CommandLine = flag.NewFlagSet("cainjector", flag.ContinueOnError)
	kubeconfig := flag.String("kubeconfig", "", "the access to the server")
	if err := flag.CommandLine.Parse(args); err != nil {
		return err
	}
	if err := os.Setenv("KUBECONFIG", *kubeconfig); err != nil {
		return err
	}
	access, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	access.UserAgent = "cert-manager-cainjector" // the field manager
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{kubernetes.AddToScheme, apiextensionsv1.AddToScheme, apiregistrationv1.AddToScheme, certmanagerv1.AddToScheme} {
		if err := add(scheme); err != nil {
			return err
		}
	}
	manager, err := ctrl.NewManager(access, ctrl.Options{Scheme: scheme, Metrics: server.Options{BindAddress: "0"}})
	if err != nil {
		return err
	}
	err = cainjector.RegisterAllInjectors(ctx, manager, cainjector.SetupOptions{
		EnableCertificatesDataSource: true,
		EnabledReconcilersFor:        map[string]bool{"mutatingwebhookconfiguration": true, "validatingwebhookconfiguration": true, "apiservice": true, "customresourcedefinition": true},
	})
	if err != nil {
		return err
	}
	return manager.Start(ctx)
}
