package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/printers"

	"kube-hyper-mini.io/kube-hyper-mini/internal/undelete"
)

// undeleteFlags are the flags of undelete.
type undeleteFlags struct {
	objectFlags
	output                  format
	dryRun, partial, orphan bool
}

func newUndelete() *cobra.Command {
	flags := &undeleteFlags{}
	cmd := &cobra.Command{
		Use:   "undelete KIND NAME",
		Short: "Bring deleted objects back from the journal",
		Long: `Bring an object back through the API as it was just before it was deleted, or at
another moment (--at, --revision), with all that depends on it: its dependents by
owner reference, the content of a namespace, the objects of a custom resource
definition.

What comes back: labels, annotations, finalizers, field managers, all content, and
the status where the type takes it. Owner references have the new UIDs.
What is new: UID, resource version, generation, creation time, and the tokens of
service accounts. Events do not come back.

First, each object is created in a dry run of the server. If one cannot come back,
nothing is created, the list says why, and the exit code is 1; --partial creates the
rest. Objects that exist are never changed.

A run that is interrupted leaves the annotation kube-hyper-mini.io/undelete on the
object that it was called with. Repeat the command, and it goes on from the same
moment. The annotation goes when everything has come back.

The command needs a running server, the right to create these objects, and the
right to read the journal.

Exit codes: 0 everything came back, or would, 1 something did not, or there is no such
journal, 2 the command line is invalid, 3 no server was found.`,
		Example: `  kube-hyper-mini undelete widget one -n team --dry-run
  kube-hyper-mini undelete namespace team --at 2026-11-21T15:04:05Z
  kube-hyper-mini undelete crd widgets.example.com --kubeconfig admin.kubeconfig --from /mnt/journal`,
		Args: oneObject,
		RunE: func(cmd *cobra.Command, args []string) error { return runUndelete(cmd, flags, args) },
	}
	flags.add(cmd)
	flags.addTarget(cmd, "the state at this time, as 2026-11-21T15:04:05Z", "the state at this revision")
	flags.output.add(cmd)
	cmd.Flags().BoolVar(&flags.dryRun, "dry-run", false,
		"only say what would be created, what is in the way, and what cannot come back")
	cmd.Flags().BoolVar(&flags.partial, "partial", false, "create what can be created although other objects cannot")
	cmd.Flags().BoolVar(&flags.orphan, "orphan", false, "drop references to owners that do not exist")
	return cmd
}

func runUndelete(cmd *cobra.Command, flags *undeleteFlags, args []string) (err error) {
	p, err := flags.open(cmd, args)
	if err != nil {
		return err
	}
	plan, err := undelete.NewPlan(cmd.Context(), p.client, p.journal, undelete.Request{
		Object: p.object, Target: p.target, Orphan: flags.orphan, JournalWait: p.wait,
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, plan.Close()) }()
	for _, warning := range plan.Warnings {
		_, _ = fmt.Fprintln(cmd.ErrOrStderr(), "WARNING: "+warning) // the command goes on
	}
	apply := !flags.dryRun && (flags.partial || plan.Problems() == 0)
	var applied error
	if apply {
		applied = plan.Apply(cmd.Context())
	}
	err = flags.output.write(cmd.OutOrStdout(), plan, func(w io.Writer) error { return printPlan(w, plan) })
	if applied != nil {
		return errors.Join(undeleteEnded(plan, applied), err)
	}
	return errors.Join(err, undeleteOutcome(plan, apply, flags.dryRun))
}

func printPlan(w io.Writer, plan *undelete.Plan) error {
	continues := ""
	if plan.Continues {
		continues = ", continuing an interrupted run"
	}
	if _, err := fmt.Fprintf(w, "as of revision %d (%s)%s\n", plan.Revision, plan.Time.Local().Format(time.DateTime),
		continues); err != nil {
		return err
	}
	return writeTable(w, func(row func(format string, args ...any)) {
		row("ACTION\tKIND\tNAMESPACE\tNAME\tREASON")
		for _, item := range plan.Items {
			reason := printers.EscapeTerminal(strings.Join(strings.Fields(item.Reason), " ")) // may be the text of a webhook
			row("%s\t%s\t%s\t%s\t%s", item.Action, item.Kind, cmp.Or(item.Namespace, "-"), item.Name, reason)
		}
	})
}

// undeleteEnded is the error of a run that the server or the user ended.
func undeleteEnded(plan *undelete.Plan, cause error) error {
	created := plan.Count(undelete.Created, undelete.Incomplete)
	missing := plan.Count(undelete.Create, undelete.Unknown)
	text := fmt.Sprintf("interrupted: %d objects were created, %d were not", created, missing)
	if unknown := plan.Count(undelete.Unknown); unknown > 0 {
		text += fmt.Sprintf(" (%d of them without an answer: they may exist)", unknown)
	}
	return fmt.Errorf("%s; repeat the command, and it goes on: %w", text, cause)
}

// undeleteOutcome is nil if everything comes, or came, back.
func undeleteOutcome(plan *undelete.Plan, applied, dryRun bool) error {
	problems := plan.Problems()
	switch {
	case problems == 0:
		return nil
	case dryRun:
		return fmt.Errorf("%d of %d objects would not come back; --partial brings back the rest", problems, len(plan.Items))
	case !applied:
		return fmt.Errorf("nothing was created: %d of %d objects would not come back; --partial brings back the rest",
			problems, len(plan.Items))
	}
	return fmt.Errorf("%d objects were created; %d of %d did not come back, or not completely",
		plan.Count(undelete.Created, undelete.Incomplete), problems, len(plan.Items))
}
