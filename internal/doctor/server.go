package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"kube-hyper-mini.io/kube-hyper-mini/internal/admin"
	"kube-hyper-mini.io/kube-hyper-mini/internal/datadir"
	"kube-hyper-mini.io/kube-hyper-mini/internal/etcd/maintenance"
	"kube-hyper-mini.io/kube-hyper-mini/internal/logging"
)

// requestTimeout bounds each request.
const requestTimeout = 30 * time.Second

// server checks a running server.
type server struct {
	*Report
	// config is that of the server; nil if it is not known.
	config  *Config
	client  kubernetes.Interface
	objects dynamic.Interface
	status  *admin.Status
}

// Server checks the server of a kubeconfig and adds what it finds to the report: that it does
// not answer, or what is wrong with it. cfg is its configuration; nil if it is not known.
func Server(ctx context.Context, report *Report, kubeconfig []byte, cfg *Config) error {
	connection, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		return fmt.Errorf("read the kubeconfig: %w", err)
	}
	report.Server = connection.Host
	defer report.sort()
	if err := admin.Reachable(ctx, kubeconfig); err != nil {
		report.check("server", func(add func(Finding)) error {
			add(unreachable(report.Server, err))
			return nil
		})
		return nil
	}
	report.Running = true
	connection.Timeout, connection.QPS = requestTimeout, -1 // flow control of the server bounds requests
	s := &server{Report: report, config: cfg}
	if s.client, err = kubernetes.NewForConfig(connection); err != nil {
		return fmt.Errorf("use the kubeconfig: %w", err)
	}
	if s.objects, err = dynamic.NewForConfig(connection); err != nil {
		return fmt.Errorf("use the kubeconfig: %w", err)
	}
	if s.refused(ctx) {
		return nil
	}
	s.check("server", func(add func(Finding)) error {
		s.status, err = admin.QueryStatus(ctx, kubeconfig)
		if err == nil {
			s.state(add)
		}
		return err
	})
	s.check("references", func(add func(Finding)) error { return s.references(ctx, add) })
	return nil
}

// refused reports whether the server refuses the credentials of the kubeconfig, with a finding.
func (s *server) refused(ctx context.Context) (refused bool) {
	if slices.ContainsFunc(s.Findings, func(f Finding) bool { return f.Check == "kubeconfig" && f.Severity == Failure }) {
		return false // it says more
	}
	s.check("credentials", func(add func(Finding)) error {
		_, err := s.client.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{},
			metav1.CreateOptions{})
		if refused = apierrors.IsUnauthorized(err); !refused {
			return err
		}
		add(Finding{
			Severity: Failure, Object: s.Server, Problem: "it refuses the credentials of the kubeconfig",
			Remedy: "log in again, or have an administrator make new ones: " + program + " kubeconfig create USER; " +
				`the log of the server says why it refuses a token: "Unable to authenticate the request"`,
		})
		return nil
	})
	return refused
}

// unreachable is the finding about a server that does not answer, and err the reason.
func unreachable(server string, err error) Finding {
	f := Finding{Severity: Failure, Object: server, Problem: err.Error(), Remedy: "start the server; if it runs, check " +
		"its address, its log, and the firewalls between it and this machine"}
	if errors.Is(err, admin.ErrNoCredentials) {
		f.Remedy = "log in as the command asks for, or have an administrator make another kubeconfig"
	}
	if errors.Is(err, admin.ErrAnotherServer) {
		f.Remedy = "get a kubeconfig of the server at this address, or correct the address in this one"
	}
	return f
}

// state reports problems in the status of the server.
func (s *server) state(add func(Finding)) {
	status := s.status
	url := cmp.Or(status.Server, s.Server)
	if !status.Ready {
		add(Finding{Severity: Failure, Object: url, Problem: "it is not ready: " + status.Reason,
			Remedy: "the reason says what is missing; the log of the server says more"})
	}
	database := status.Database
	switch {
	case database.ReadOnly != "":
		add(Finding{Severity: Failure, Object: url, Problem: "it refuses writes: " + database.ReadOnly,
			Remedy: "make room as the reason says; " + program + " defrag returns free space of the database to the " +
				"disk"})
	case database.Error != "":
		add(Finding{Severity: Failure, Object: url, Problem: "the database: " + database.Error,
			Remedy: "remove the cause; the log of etcd says more"})
	case database.NearQuota:
		checkQuota(add, url, database.SizeBytes, database.QuotaBytes)
	}
	if text := status.Backups.Error; text != "" {
		add(Finding{Severity: Failure, Object: url, Problem: "the scheduled backup failed: " + text,
			Remedy: "remove the cause, and make a backup now to see that it works; this is reported until a " +
				"scheduled one succeeds", Commands: []string{s.command("backup save")}})
	}
	if status.Journal != nil && status.Journal.Warning != "" {
		add(Finding{Severity: Risk, Object: status.Journal.Destination, Problem: "the journal: " +
			status.Journal.Warning, Remedy: "see " + program + " help journal"})
	}
	if status.Journal != nil && status.Journal.Error != "" {
		add(Finding{Severity: Failure, Object: status.Journal.Destination, Problem: "the journal lags behind: " +
			status.Journal.Error, Remedy: "remove the cause: the server then goes on by itself; see " + program +
			" help journal"})
	}
	if m := status.Manifests; m != nil && m.Failures > 0 {
		add(Finding{Severity: Failure, Object: url, Problem: fmt.Sprintf("%d manifests of manifests.dir are not "+
			"applied: %s", m.Failures, m.Error), Remedy: "correct the files: the server reads them again by itself"})
	}
}

// command is a command of this program for the data directory of the report.
func (s *server) command(words string) string {
	if s.DataDir != "" {
		words += " --data-dir " + logging.ShellWord(s.DataDir)
	}
	return program + " " + words
}

// checkQuota reports a database that takes most of its quota.
func checkQuota(add func(Finding), object string, bytes, quota int64) {
	f := Finding{
		Severity: Risk, Object: object, Problem: fmt.Sprintf("the database takes %s of its quota of %s",
			datadir.Size(bytes), datadir.Size(quota)),
		Remedy: "delete objects and run " + program + " defrag; or raise etcd.embedded.quotaBackend and restart",
	}
	switch {
	case quota <= 0 || float64(bytes) < maintenance.WarnShare*float64(quota):
		return
	case bytes >= quota:
		f.Severity, f.Problem = Failure, f.Problem+": writes other than deletions are refused"
	}
	add(f)
}

// Kubeconfig checks a kubeconfig file of a client, adds what it finds to the report, and
// reports whether a server can be reached with it.
func Kubeconfig(report *Report, path string, data []byte) (usable bool) {
	report.check("kubeconfig", func(add func(Finding)) error {
		cfg, err := clientcmd.Load(data)
		if err == nil {
			_, err = clientcmd.RESTConfigFromKubeConfig(data)
		}
		if err != nil {
			problem := err.Error()
			if clientcmd.IsEmptyConfig(err) {
				problem = "it names no server: it has no cluster, user and context"
			}
			add(Finding{Severity: Failure, Object: path, Problem: problem,
				Remedy: "correct the file (kubectl config view --kubeconfig " + logging.ShellWord(path) +
					" shows it), or have an administrator make a new one: " + program + " kubeconfig create USER"})
			return nil
		}
		usable = true
		if info, err := os.Stat(path); err == nil && runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
			add(Finding{Severity: Risk, Object: path, Problem: fmt.Sprintf("it has the mode %04o, so that other "+
				"users may use its credentials", info.Mode().Perm()),
				Remedy: "restrict the mode", Commands: []string{"chmod 0600 " + logging.ShellWord(path)}})
		}
		credentials(add, path, cfg, "have an administrator make new ones: "+program+
			" kubeconfig create USER --force -o "+logging.ShellWord(path))
		return nil
	})
	report.sort()
	return usable
}
