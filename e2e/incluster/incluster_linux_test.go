package incluster

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// clientVariable makes this program the client.
const clientVariable = "IN_CLUSTER_CLIENT"

// mountPoint is where client-go looks.
const mountPoint = "/var/run/secrets/kubernetes.io/serviceaccount"

func TestMain(m *testing.M) {
	if os.Getenv(clientVariable) == "" {
		os.Exit(m.Run())
	}
	if err := client(os.Args[1]); err != nil {
		fmt.Println("error:", err)
		os.Exit(1)
	}
}

// client does what the test asks of a program that is run.
func client(what string) error {
	switch what {
	case "identify":
		return identify()
	case "wait":
		signals := make(chan os.Signal, 1)
		signal.Notify(signals, syscall.SIGTERM)
		fmt.Println("waiting")
		fmt.Println("got", <-signals)
		os.Exit(5)
	case "identify as another user":
		cmd := exec.Command(os.Args[0], "identify")
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: user, Gid: user}}
		err := cmd.Run()
		if code := exitCode(err); code != 0 {
			os.Exit(code)
		}
		return err
	case "reload":
		for {
			token, err := os.ReadFile(filepath.Join(mountPoint, "token"))
			if err != nil || string(token) != "token-1" {
				fmt.Println("the token is", string(token))
				return err
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
	return errors.New("unknown: " + what)
}

// identify prints what the server and the program know of the client, and ends with 7.
func identify() error {
	config, err := rest.InClusterConfig()
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	review, err := client.AuthenticationV1().SelfSubjectReviews().Create(context.Background(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	namespace, err := os.ReadFile(filepath.Join(mountPoint, "namespace"))
	if err != nil {
		return err
	}
	fmt.Printf("%s in %s, user %d, KUBECONFIG %q\n", review.Status.UserInfo.Username, namespace, os.Getuid(), os.Getenv("KUBECONFIG"))
	run, err := os.ReadDir("/run")
	if err != nil {
		return err
	}
	for _, entry := range run {
		fmt.Println("entry", entry.Name())
	}
	capabilities, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return err
	}
	fmt.Println(string(capabilities))
	os.Exit(7)
	return nil
}

// setup is a server with a service account, and programs for a user.
type setup struct {
	t   *testing.T
	s   *harness.Server
	dir string // of the user
	uid uint32
}

// user is one that is not root and need not exist.
const user = 54321

// as prepares a directory of the user, who need not be able to read that of the clone.
func as(t *testing.T, s *harness.Server, uid uint32) *setup {
	t.Helper()
	dir, err := os.MkdirTemp("", "in-cluster-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	u := &setup{t, s, dir, uid}
	u.copy(harness.Binary(t), "kube-hyper-mini", 0o755)
	u.copy(self, "client", 0o755)
	if s != nil {
		u.copy(s.Kubeconfig, "kubeconfig", 0o600)
	}
	if err := os.Mkdir(filepath.Join(dir, "tmp"), 0o700); err != nil {
		t.Fatal(err)
	}
	if uid != uint32(os.Getuid()) {
		for _, name := range []string{"", "tmp", "kubeconfig", "kube-hyper-mini", "client"} {
			if err := os.Chown(filepath.Join(dir, name), int(uid), int(uid)); err != nil {
				t.Fatal(err)
			}
		}
	}
	return u
}

func (u *setup) copy(from, name string, mode os.FileMode) {
	u.t.Helper()
	in, err := os.Open(from)
	if err != nil {
		u.t.Fatal(err)
	}
	defer func() { _ = in.Close() }()
	out, err := os.OpenFile(filepath.Join(u.dir, name), os.O_CREATE|os.O_WRONLY, mode)
	if err != nil {
		u.t.Fatal(err)
	}
	_, err = io.Copy(out, in)
	if err := errors.Join(err, out.Close()); err != nil {
		u.t.Fatal(err)
	}
}

// command is the command in-cluster, with the client and what it is to do.
func (u *setup) command(what string) *exec.Cmd {
	return u.run("--kubeconfig", filepath.Join(u.dir, "kubeconfig"), "--service-account", "team/robot", "--", filepath.Join(u.dir, "client"), what)
}

func (u *setup) run(args ...string) *exec.Cmd {
	ctx, cancel := context.WithTimeout(context.Background(), harness.Patience)
	u.t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, filepath.Join(u.dir, "kube-hyper-mini"), append([]string{"in-cluster"}, args...)...)
	cmd.Dir = u.dir
	cmd.Env = append(os.Environ(), clientVariable+"=yes", "KUBECONFIG=/elsewhere", "TMPDIR="+filepath.Join(u.dir, "tmp"), "HOME="+u.dir)
	if u.uid != uint32(os.Getuid()) {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: u.uid, Gid: u.uid}}
	}
	return cmd
}

// left returns what is left in the directory for temporary files.
func (u *setup) left() error {
	entries, err := os.ReadDir(filepath.Join(u.dir, "tmp"))
	if err == nil && len(entries) > 0 {
		err = fmt.Errorf("%v is left", entries)
	}
	return err
}

// users are the user of the tests and, if that is root, another one.
func users() []uint32 {
	if os.Getuid() == 0 {
		return []uint32{0, user}
	}
	return []uint32{uint32(os.Getuid())}
}

// allowed reports whether this user may make the namespaces. If not, the command must
// say what is missing.
func (u *setup) allowed() bool {
	u.t.Helper()
	out, err := u.command("identify").CombinedOutput()
	if exitCode(err) == 7 {
		return true
	}
	if exitCode(err) != harness.ExitFailure {
		u.t.Fatalf("%v\n%s", err, out)
	}
	harness.Contains(u.t, string(out), "error: make a mount namespace for COMMAND: ", "this user may not make user namespaces", "kubeconfig create")
	return false
}

func exitCode(err error) int {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode()
	}
	return 0
}

// TestInCluster: a client with in-cluster configuration is the service account, sees the
// rest of /run, and has the user of the command and no rights of root.
func TestInCluster(t *testing.T) {
	s := harness.Start(t)
	s.Kubectl("", "create", "namespace", "team")
	s.Kubectl("", "create", "serviceaccount", "-n", "team", "robot")
	before, err := os.ReadDir("/run")
	if err != nil {
		t.Fatal(err)
	}
	for _, uid := range users() {
		t.Run(fmt.Sprint(uid), func(t *testing.T) {
			u := as(t, s.For(t), uid)
			if !u.allowed() {
				return
			}
			out, err := u.command("identify").CombinedOutput()
			if exitCode(err) != 7 {
				t.Fatalf("%v\n%s", err, out)
			}
			harness.Contains(t, string(out), fmt.Sprintf("system:serviceaccount:team:robot in team, user %d, KUBECONFIG \"\"\n", uid))
			for _, entry := range before {
				if _, err := os.Lstat(filepath.Join("/run", entry.Name())); err == nil { // other programs change /run
					harness.Contains(t, string(out), "entry "+entry.Name()+"\n")
				}
			}
			if uid != 0 {
				harness.Contains(t, string(out), "CapEff:\t0000000000000000\n", "CapAmb:\t0000000000000000\n")
			}
			if err := u.left(); err != nil {
				t.Error(err)
			}
			if uid == 0 {
				u.changesUser()
			}
			u.signalled()
			u.killed()
			u.refused()
			u.byHand()
		})
	}
	if _, err := os.Stat(mountPoint); err == nil {
		t.Errorf("%s is on this machine now", mountPoint)
	}
}

// changesUser: a client that root has started may become another user.
func (u *setup) changesUser() {
	u.t.Helper()
	if err := os.Chmod(u.dir, 0o755); err != nil { // for the client itself
		u.t.Fatal(err)
	}
	cmd := u.command("identify as another user")
	old := syscall.Umask(0o077) // that of the command
	out, err := cmd.CombinedOutput()
	syscall.Umask(old)
	if strings.Contains(string(out), "invalid argument") {
		return // in a user namespace there is no other user
	}
	if exitCode(err) != 7 {
		u.t.Errorf("%v\n%s", err, out)
	}
	harness.Contains(u.t, string(out), fmt.Sprintf("system:serviceaccount:team:robot in team, user %d,", user))
}

// byHand: the hidden command mounts nothing if it was not started by in-cluster.
func (u *setup) byHand() {
	u.t.Helper()
	outside, err := os.Readlink("/proc/self/ns/mnt")
	if err != nil {
		u.t.Fatal(err)
	}
	read, write, err := os.Pipe()
	if err != nil {
		u.t.Fatal(err)
	}
	defer func() { _, _ = read.Close(), write.Close() }()
	for name, files := range map[string][]*os.File{"without a pipe": nil, "with a pipe": {nil, nil, write}} {
		cmd := u.run()
		cmd.Args = []string{"kube-hyper-mini", "in-cluster-enter", outside, u.dir, filepath.Join(u.dir, "client"), "client", "identify"}
		cmd.ExtraFiles = files
		if out, err := cmd.CombinedOutput(); exitCode(err) != harness.ExitFailure || !strings.Contains(string(out), "for the command in-cluster only") {
			u.t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}

// signalled: the command passes a signal on, and ends with the client's exit code.
func (u *setup) signalled() {
	u.t.Helper()
	cmd, out := u.start("wait")
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		u.t.Fatal(err)
	}
	if code := exitCode(cmd.Wait()); code != 5 {
		u.t.Errorf("after SIGTERM the exit code is %d, want 5\n%s", code, read(out))
	}
	harness.Contains(u.t, read(out), "got terminated")
	if err := u.left(); err != nil {
		u.t.Error(err)
	}
}

// killed: when the command is killed, the client ends and the token is removed.
func (u *setup) killed() {
	u.t.Helper()
	cmd, _ := u.start("wait")
	if err := cmd.Process.Kill(); err != nil {
		u.t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	harness.Eventually(u.t, "nothing is left", u.left)
}

// start starts the client and waits for its first line.
func (u *setup) start(what string) (*exec.Cmd, string) {
	u.t.Helper()
	out, err := os.Create(filepath.Join(u.t.TempDir(), "out"))
	if err != nil {
		u.t.Fatal(err)
	}
	defer func() { _ = out.Close() }()
	cmd := u.command(what)
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		u.t.Fatal(err)
	}
	u.t.Cleanup(func() { _ = cmd.Process.Kill() }) // it has ended unless the test failed
	harness.Eventually(u.t, "the client waits", func() error {
		if text := read(out.Name()); !strings.Contains(text, "waiting\n") {
			return errors.New("it has written " + text)
		}
		return nil
	})
	return cmd, out.Name()
}

func read(path string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	return string(data)
}

// refused: what cannot be run has an error of one line, and nothing is left.
func (u *setup) refused() {
	u.t.Helper()
	script := filepath.Join(u.dir, "script")
	if err := os.WriteFile(script, []byte("#!/no/such/interpreter\n"), 0o755); err != nil {
		u.t.Fatal(err)
	}
	kubeconfig, account := "--kubeconfig="+filepath.Join(u.dir, "kubeconfig"), "--service-account=team/robot"
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{kubeconfig, account, "--", "no-such-program"}, 127, `COMMAND "no-such-program" cannot be run`},
		{[]string{kubeconfig, account, "--", u.dir + "/kubeconfig"}, 126, "permission denied"},
		{[]string{kubeconfig, account, "--", script}, 126, "cannot be run: no such file or directory"},
		{[]string{kubeconfig, "--service-account=team/nobody", "--", "true"}, 1, "there is no service account nobody in namespace team: make it with kubectl create serviceaccount -n team nobody"},
		{[]string{"--data-dir", u.dir + "/none", account, "--", "true"}, 3, "no kubeconfig at"},
		{[]string{kubeconfig, account, "true"}, 2, `COMMAND follows "--"`},
		{[]string{kubeconfig, account, "--"}, 2, `COMMAND follows "--"`},
		{[]string{kubeconfig, "--", "true"}, 2, "--service-account NAMESPACE/NAME is missing"},
		{[]string{kubeconfig, "--service-account=robot", "--", "true"}, 2, `--service-account "robot" is not namespace/name`},
		{[]string{kubeconfig, account, "--expires=1m", "--", "true"}, 2, "--expires 1m0s is too short; at least 10m0s"},
		{[]string{kubeconfig, account, "--server=mini", "--", "true"}, 2, `--server: "mini" is not the URL of a server`},
	} {
		out, err := u.run(c.args...).CombinedOutput()
		if exitCode(err) != c.code || !strings.Contains(string(out), c.want) || strings.Count(string(out), "\n") != 1 {
			u.t.Errorf("%v: %v, want exit code %d and %q:\n%s", c.args, err, c.code, c.want, out)
		}
	}
	if err := u.left(); err != nil {
		u.t.Error(err)
	}
}

// TestInterruptWhileTheServerHangs: Ctrl-C ends the command at once, before it has
// credentials.
func TestInterruptWhileTheServerHangs(t *testing.T) {
	t.Parallel()
	asked := make(chan struct{}, 1)
	server := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case asked <- struct{}{}:
		default: // it asks again
		}
		<-r.Context().Done()
	}))
	defer server.Close()
	u := as(t, nil, uint32(os.Getuid()))
	u.fakeKubeconfig(server.URL)
	cmd := u.command("identify")
	out := &bytes.Buffer{}
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case <-asked:
	case err := <-ended:
		t.Fatalf("it ended before it asked the server: %v\n%s", err, out)
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if code := exitCode(<-ended); code != 130 || !strings.Contains(out.String(), "interrupt during the start") {
		t.Errorf("exit code %d, want 130:\n%s", code, out)
	}
	if err := u.left(); err != nil {
		t.Error(err)
	}
}

// fakeKubeconfig writes a kubeconfig for a server that is not verified.
func (u *setup) fakeKubeconfig(url string) {
	u.t.Helper()
	kubeconfig := api.NewConfig()
	kubeconfig.Clusters["fake"] = &api.Cluster{Server: url, InsecureSkipTLSVerify: true}
	kubeconfig.Contexts["fake"] = &api.Context{Cluster: "fake"}
	kubeconfig.CurrentContext = "fake"
	if err := clientcmd.WriteToFile(*kubeconfig, filepath.Join(u.dir, "kubeconfig")); err != nil {
		u.t.Fatal(err)
	}
}

// TestTokenIsRenewed: the client reads another token before the first one expires. The
// server here gives tokens with a life that is shorter than the API allows.
func TestTokenIsRenewed(t *testing.T) {
	t.Parallel()
	var tokens atomic.Int32
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/namespaces/team/serviceaccounts/robot/token") {
			return // the check that the server answers
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(authenticationv1.TokenRequest{
			TypeMeta: metav1.TypeMeta{APIVersion: "authentication.k8s.io/v1", Kind: "TokenRequest"},
			Status:   authenticationv1.TokenRequestStatus{Token: fmt.Sprint("token-", tokens.Add(1)), ExpirationTimestamp: metav1.NewTime(time.Now().Add(2 * time.Second))},
		})
	}))
	defer server.Close()
	u := as(t, nil, uint32(os.Getuid()))
	u.fakeKubeconfig(server.URL)
	out, err := u.command("reload").CombinedOutput()
	if strings.Contains(string(out), "user namespaces") {
		t.Skip("this user may not make user namespaces")
	}
	if err != nil || !strings.Contains(string(out), "the token is token-") {
		t.Errorf("%v\n%s", err, out)
	}
}
