package redisnode

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
)

// RunWait is Run followed, on the same connection, by a WAIT for the replicas,
// whose number it returns. timeout must stay below the client's ReadTimeout. It
// shares its pipeline with nobody, since WAIT blocks the connection.
func (n *Node) RunWait(ctx context.Context, s *Script, keys, args []string, replicas int, timeout time.Duration) (Result, int, error) {
	j := newJob(ctx, Call{s, keys, args})
	j.group = &group{left: 1, done: make(chan struct{})}
	j.take()
	var confirmed int // written before the job ends
	n.Go(func() { n.sendAndWait(j, replicas, timeout, &confirmed) })
	select {
	case <-j.group.done:
	case <-ctx.Done():
	}
	r := j.outcome(ctx)
	if r.Err != nil {
		return r, 0, r.Err
	}
	return r, confirmed, nil
}

func (n *Node) sendAndWait(j *job, replicas int, timeout time.Duration, confirmed *int) {
	defer j.end()
	client := n.client
	if n.cluster != nil {
		// The cluster client would send the WAIT, which has no key, anywhere.
		master, err := n.cluster.MasterForKey(context.WithoutCancel(j.ctx), j.Keys[0])
		if err != nil {
			j.result.Err = err
			return
		}
		client = master
	}
	for {
		pipe := client.Pipeline()
		cmd := j.cmd()
		_ = pipe.Process(j.ctx, cmd)
		wait := redis.NewIntCmd(j.ctx, "wait", replicas, timeout.Milliseconds())
		_ = pipe.Process(j.ctx, wait)
		_, failed := pipe.Exec(context.WithoutCancel(j.ctx))
		if j.unknown(cmd.Err()) {
			continue
		}
		j.result.Value, j.result.Err = cmd.Val(), cmd.Err()
		switch {
		case j.result.Err != nil:
		case j.result.Value == nil:
			j.result.Err = failed // no connection: no command has an error
		case wait.Err() != nil:
			j.result.Err, j.result.Once = wait.Err(), false // the script has run
		default:
			*confirmed = int(wait.Val())
		}
		break
	}
	if n.cluster != nil && j.result.Err != nil {
		n.cluster.ReloadState(context.WithoutCancel(j.ctx)) // it may have MOVED
	}
}
