package scheduler

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	frameworkplugins "k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
)

// Plugins that a test registers stay in this process, where the test looks at them. The other scheduler has plugins of
// the same names, which ask here over loopback (tests/upstream/foreign.py). They are called by reflection: their
// interfaces moved to another package in 1.35, and the methods have kept names and parameters.

const (
	pluginsVariable = "JUDGED_SCHEDULER_PLUGINS" // file with what the other process must know of the plugins
	pluginsModule   = "tests.upstream.foreign"   // its attributes plugin_0, plugin_1... are the descriptors
	sightTime       = 5 * time.Second            // the other process may see an object a little earlier than this one
)

// pluginMethods are the methods that make up extension points, and those that are optional there.
var pluginMethods = []string{"PreEnqueue", "PreFilter", "Filter", "PostFilter", "PreScore", "Score", "Reserve",
	"Permit", "PreBind", "PreBindPreFlight", "Bind", "PostBind"}

// description is what the other process must know of a plugin. Events is null where the plugin does not name any.
type description struct {
	Name    string       `json:"name"`
	Methods []string     `json:"methods"`
	Events  []eventNames `json:"events"`
}

type eventNames struct {
	Resource string   `json:"resource"`
	Actions  []string `json:"actions"`
	Hint     bool     `json:"hint"`
}

// objectVersion is an object as the other process has seen it.
type objectVersion struct {
	UID     types.UID `json:"uid"`
	Version string    `json:"version"`
}

type nodeWithPods struct {
	objectVersion
	Pods []objectVersion `json:"pods"`
}

// question is a call of a method: of the plugin, of the cycle's state (Clone), or about a pod that waits.
type question struct {
	Profile string         `json:"profile"`
	Plugin  string         `json:"plugin"`
	Method  string         `json:"method"`
	Cycle   int            `json:"cycle"`  // 0: outside of any
	Cloned  int            `json:"cloned"` // of which cycle this one is to be a clone
	Pod     objectVersion  `json:"pod"`
	Moved   *objectVersion `json:"moved"` // AddPod, RemovePod
	Node    string         `json:"node"`
	Nodes   []nodeWithPods `json:"nodes"`
	Scores  []int64        `json:"scores"` // of the nodes: NormalizeScore
	Event   int            `json:"event"`  // which of EventsToRegister: its hint
	Old     *objectVersion `json:"old"`
	New     *objectVersion `json:"new"`
}

type statusAnswer struct {
	Code    int64    `json:"code"`
	Reasons []string `json:"reasons"`
}

// answer has a status per node where the method is called for each, else one.
type answer struct {
	Statuses  []statusAnswer `json:"statuses"`
	Names     []string       `json:"names"` // PreFilter: the only nodes, null for all; Wait: the plugins that hold the pod
	Scores    []int64        `json:"scores"`
	Seconds   float64        `json:"seconds"`   // Permit
	Nominated *string        `json:"nominated"` // PostFilter; null: leave it
	Queue     bool           `json:"queue"`     // hints
	Decided   bool           `json:"decided"`   // Wait
	Plugin    string         `json:"plugin"`    // Wait: who rejected the pod
	Activate  []types.UID    `json:"activate"`  // pods that the plugin wants tried at once
	Error     string         `json:"error"`     // the question cannot be answered
}

// pluginCycle is what an attempt at a pod has here: the pod as it was at the first question.
type pluginCycle struct {
	pod        *v1.Pod
	state      reflect.Value
	activate   *framework.PodsToActivate
	preFilters sync.Once
}

// pluginServer answers for the plugins that a test registered.
type pluginServer struct {
	sched *Scheduler
	ctx   context.Context
	names []string

	snapshots sync.Mutex
	mutex     sync.Mutex
	cycles    map[int]*pluginCycle
	versions  map[objectVersion]metav1.Object
	latest    map[types.UID]metav1.Object
	holding   map[types.UID][]string // plugins that hold a pod, while others are still to be asked
}

// sorts says whether a plugin of the name orders the queue: another process cannot ask about each pair of pods.
func (sched *Scheduler) sorts(name string) bool {
	for _, profile := range sched.Profiles {
		if plugin := frameworkruntime.PluginOf(profile, name); plugin != nil && has(plugin, "Less") {
			return true
		}
	}
	return false
}

// leftToGo lacks the test's own plugins where another scheduler runs: the queue of the Go one would ask them as well.
func leftToGo[T interface{ Name() string }](plugins []T) []T {
	if !JudgedIsChosen() {
		return plugins
	}
	own := frameworkplugins.NewInTreeRegistry()
	return slices.DeleteFunc(slices.Clone(plugins), func(plugin T) bool {
		_, inTree := own[plugin.Name()]
		return !inTree
	})
}

// servePlugins answers for the plugins until the context ends. It returns what the environment of the process needs.
func servePlugins(ctx context.Context, sched *Scheduler, names []string, directory string) ([]string, error) {
	server := &pluginServer{sched: sched, ctx: ctx, names: names, cycles: map[int]*pluginCycle{},
		versions: map[objectVersion]metav1.Object{}, latest: map[types.UID]metav1.Object{},
		holding: map[types.UID][]string{}}
	if err := server.watch(); err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	serving := &http.Server{Handler: server}
	go func() { _ = serving.Serve(listener) }()
	go func() {
		<-ctx.Done()
		_ = serving.Close()
	}()
	return server.describe(directory, listener.Addr().String())
}

// watch keeps every version of pods and nodes: the other process asks with what it has seen.
func (s *pluginServer) watch() error {
	for _, profile := range s.sched.Profiles {
		core := profile.SharedInformerFactory().Core().V1()
		for _, informer := range []cache.SharedIndexInformer{core.Pods().Informer(), core.Nodes().Informer()} {
			handlers := cache.ResourceEventHandlerFuncs{
				AddFunc:    s.keep,
				UpdateFunc: func(_, current any) { s.keep(current) },
			}
			if _, err := informer.AddEventHandler(handlers); err != nil {
				return err
			}
		}
		break // the profiles share the informers
	}
	return nil
}

func (s *pluginServer) keep(current any) {
	if object, known := current.(metav1.Object); known {
		s.mutex.Lock()
		defer s.mutex.Unlock()
		s.versions[objectVersion{object.GetUID(), object.GetResourceVersion()}] = object
		s.latest[object.GetUID()] = object
	}
}

// object finds what the other process has seen; where that does not come, the newest of this UID, or nil.
func (s *pluginServer) object(wanted objectVersion) metav1.Object {
	for until := time.Now().Add(sightTime); ; time.Sleep(2 * time.Millisecond) {
		s.mutex.Lock()
		exact, found := s.versions[wanted]
		newest := s.latest[wanted.UID]
		s.mutex.Unlock()
		if found {
			return exact
		}
		if newest != nil && wanted.Version == "" || time.Now().After(until) {
			return newest
		}
	}
}

func (s *pluginServer) podOf(wanted objectVersion) (*v1.Pod, error) {
	if pod, found := s.object(wanted).(*v1.Pod); found {
		return pod, nil
	}
	return nil, fmt.Errorf("no pod has the UID %s", wanted.UID)
}

// nodeInfo is a node with the pods that the other process has on it, in a what-if run, too.
func (s *pluginServer) nodeInfo(wanted nodeWithPods) (*framework.NodeInfo, error) {
	node, found := s.object(wanted.objectVersion).(*v1.Node)
	if !found {
		return nil, fmt.Errorf("no node has the UID %s", wanted.UID)
	}
	var pods []*v1.Pod
	for _, version := range wanted.Pods {
		pod, err := s.podOf(version)
		if err != nil {
			return nil, err
		}
		pod = pod.DeepCopy()
		pod.Spec.NodeName = node.Name
		pods = append(pods, pod)
	}
	info := framework.NewNodeInfo(pods...)
	info.SetNode(node)
	return info, nil
}

func (s *pluginServer) nodeInfos(wanted []nodeWithPods) ([]any, error) {
	infos := make([]any, len(wanted))
	for i := range wanted {
		info, err := s.nodeInfo(wanted[i])
		if err != nil {
			return nil, err
		}
		infos[i] = info
	}
	return infos, nil
}

// describe writes what the other process must know, and the metadata by which it finds plugins of packages.
func (s *pluginServer) describe(directory, address string) ([]string, error) {
	var plugins []description
	entries := "[secondary_scheduler.plugins]\n"
	for number, name := range s.names {
		plugins = append(plugins, s.description(name))
		entries += fmt.Sprintf("plugin_%d = %s:plugin_%d\n", number, pluginsModule, number)
	}
	content, err := json.Marshal(map[string]any{"address": address, "plugins": plugins})
	if err != nil {
		return nil, err
	}
	metadata := filepath.Join(directory, "foreign-1.dist-info")
	if err := os.Mkdir(metadata, 0o700); err != nil {
		return nil, err
	}
	described := filepath.Join(directory, "plugins.json")
	for path, text := range map[string]string{
		described:                                   string(content),
		filepath.Join(metadata, "METADATA"):         "Metadata-Version: 2.1\nName: foreign\nVersion: 1\n",
		filepath.Join(metadata, "entry_points.txt"): entries,
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			return nil, err
		}
	}
	search := directory + string(os.PathListSeparator) + os.Getenv("PYTHONPATH")
	return []string{pluginsVariable + "=" + described, "PYTHONPATH=" + search}, nil
}

func (s *pluginServer) description(name string) description {
	described := description{Name: name}
	for _, profile := range s.sched.Profiles {
		plugin := frameworkruntime.PluginOf(profile, name)
		if plugin == nil {
			continue
		}
		for _, method := range pluginMethods {
			if has(plugin, method) {
				described.Methods = append(described.Methods, method)
			}
		}
		if extensionsOf(plugin, "PreFilterExtensions").IsValid() {
			described.Methods = append(described.Methods, "AddPod")
		}
		if extensionsOf(plugin, "ScoreExtensions").IsValid() {
			described.Methods = append(described.Methods, "NormalizeScore")
		}
		described.Events = s.eventNames(plugin)
		break
	}
	return described
}

func (s *pluginServer) eventNames(plugin any) []eventNames {
	if !has(plugin, "EventsToRegister") {
		return nil
	}
	names := []eventNames{}
	events := call(plugin, "EventsToRegister", s.ctx)[0]
	for i := range events.Len() {
		event := events.Index(i).FieldByName("Event")
		named := eventNames{
			Resource: event.FieldByName("Resource").String(),
			Hint:     !events.Index(i).FieldByName("QueueingHintFn").IsNil(),
		}
		actions := event.FieldByName("ActionType")
		for bit := range 62 {
			if actions.Int()>>bit&1 == 1 {
				single := reflect.New(actions.Type()).Elem()
				single.SetInt(1 << bit)
				named.Actions = append(named.Actions, fmt.Sprint(single.Interface()))
			}
		}
		names = append(names, named)
	}
	return names
}

// ServeHTTP answers one question.
func (s *pluginServer) ServeHTTP(writer http.ResponseWriter, request *http.Request) {
	var asked question
	var given answer
	err := json.NewDecoder(request.Body).Decode(&asked)
	if err == nil {
		err = s.answer(&asked, &given)
	}
	if err != nil {
		given = answer{Error: err.Error()}
	}
	_ = json.NewEncoder(writer).Encode(given)
}

func (s *pluginServer) answer(asked *question, given *answer) error {
	profile, found := s.sched.Profiles[asked.Profile]
	if !found {
		return fmt.Errorf("no profile %s", asked.Profile)
	}
	switch asked.Method {
	case "Clone":
		return s.clone(asked)
	case "Wait":
		s.wait(profile, asked, given)
		return nil
	case "LetGo":
		frameworkruntime.LetGo(profile, asked.Pod.UID)
		return nil
	}
	plugin := frameworkruntime.PluginOf(profile, asked.Plugin)
	if plugin == nil {
		return fmt.Errorf("profile %s has no plugin %s", asked.Profile, asked.Plugin)
	}
	if asked.Cycle == 0 {
		return s.answerOutside(plugin, asked, given)
	}
	cycle, err := s.cycle(asked)
	if err != nil {
		return err
	}
	if err := s.answerInCycle(profile, plugin, cycle, asked, given); err != nil {
		return err
	}
	cycle.activate.Lock()
	defer cycle.activate.Unlock()
	for _, pod := range cycle.activate.Map {
		given.Activate = append(given.Activate, pod.UID)
	}
	clear(cycle.activate.Map)
	return nil
}

// answerOutside is for what is asked outside of attempts.
func (s *pluginServer) answerOutside(plugin any, asked *question, given *answer) error {
	pod, err := s.podOf(asked.Pod)
	if err != nil {
		return err
	}
	switch asked.Method {
	case "PreEnqueue":
		given.Statuses = []statusAnswer{statusOf(call(plugin, "PreEnqueue", s.ctx, pod)[0])}
	case "QueueingHint":
		event := call(plugin, "EventsToRegister", s.ctx)[0].Index(asked.Event)
		logger := klog.FromContext(s.ctx)
		results := callFunction(event.FieldByName("QueueingHintFn"), logger, pod, s.changed(asked.Old), s.changed(asked.New))
		if !results[1].IsNil() {
			return fmt.Errorf("%v", results[1].Interface())
		}
		given.Queue = results[0].Int() != 0
	default:
		return fmt.Errorf("no method %s outside of a cycle", asked.Method)
	}
	return nil
}

// changed is an object of an event; nil where there is none, and where it is neither a pod nor a node.
func (s *pluginServer) changed(wanted *objectVersion) any {
	if wanted == nil {
		return nil
	}
	return s.object(*wanted)
}

func (s *pluginServer) answerInCycle(
	profile, plugin any, cycle *pluginCycle, asked *question, given *answer,
) error {
	infos, err := s.nodeInfos(asked.Nodes)
	if err != nil {
		return err
	}
	state, pod := cycle.state, cycle.pod
	one := func(status reflect.Value) { given.Statuses = []statusAnswer{statusOf(status)} }
	switch asked.Method {
	case "PreFilter":
		nodes, err := s.sched.nodeInfoSnapshot.NodeInfos().List()
		if err != nil {
			return err
		}
		results := call(plugin, "PreFilter", s.ctx, state, pod, nodes)
		if result := results[0]; !result.IsNil() {
			given.Names = namesOf(result.Elem().FieldByName("NodeNames"))
		}
		one(results[1])
	case "AddPod", "RemovePod":
		moved, err := s.podOf(*asked.Moved)
		if err != nil {
			return err
		}
		info, err := framework.NewPodInfo(moved)
		if err != nil {
			return err
		}
		one(call(extensionsOf(plugin, "PreFilterExtensions"), asked.Method, s.ctx, state, pod, info, infos[0])[0])
	case "Filter":
		for _, info := range infos {
			given.Statuses = append(given.Statuses, statusOf(call(plugin, "Filter", s.ctx, state, pod, info)[0]))
		}
	case "PostFilter":
		// What a plugin asks the framework is answered by Go's filters, which look for what PreFilter has kept.
		cycle.preFilters.Do(func() { s.preFilterOthers(profile, cycle) })
		// The statuses of the nodes are not passed on.
		results := call(plugin, "PostFilter", s.ctx, state, pod, framework.NewDefaultNodeToStatus())
		given.Nominated = nominatedBy(results[0])
		one(results[1])
	case "PreScore":
		one(call(plugin, "PreScore", s.ctx, state, pod, infos)[0])
	case "Score":
		for _, info := range infos {
			results := call(plugin, "Score", s.ctx, state, pod, info)
			given.Scores = append(given.Scores, results[0].Int())
			given.Statuses = append(given.Statuses, statusOf(results[1]))
		}
	case "NormalizeScore":
		normalizer := extensionsOf(plugin, "ScoreExtensions")
		method := normalizer.MethodByName("NormalizeScore")
		scores := reflect.MakeSlice(method.Type().In(3), len(infos), len(infos))
		for i, info := range infos {
			scores.Index(i).FieldByName("Name").SetString(info.(*framework.NodeInfo).Node().Name)
			scores.Index(i).FieldByName("Score").SetInt(asked.Scores[i])
		}
		one(callFunction(method, s.ctx, state, pod, scores)[0])
		for i := range infos {
			given.Scores = append(given.Scores, scores.Index(i).FieldByName("Score").Int())
		}
	case "Permit":
		results := call(plugin, "Permit", s.ctx, state, pod, asked.Node)
		one(results[0])
		given.Seconds = time.Duration(results[1].Int()).Seconds()
		s.hold(profile, plugin, pod, given.Statuses[0])
	case "Unreserve", "PostBind":
		call(plugin, asked.Method, s.ctx, state, pod, asked.Node)
		given.Statuses = []statusAnswer{{}}
	case "Reserve", "PreBind", "PreBindPreFlight", "Bind":
		results := call(plugin, asked.Method, s.ctx, state, pod, asked.Node)
		one(results[len(results)-1])
	default:
		return fmt.Errorf("no method %s", asked.Method)
	}
	return nil
}

// cycle finds an attempt, or begins one: with the cluster as it is then.
func (s *pluginServer) cycle(asked *question) (*pluginCycle, error) {
	s.mutex.Lock()
	cycle, found := s.cycles[asked.Cycle]
	s.mutex.Unlock()
	if found {
		return cycle, nil
	}
	pod, err := s.podOf(asked.Pod)
	if err != nil {
		return nil, err
	}
	if err := s.updateSnapshot(); err != nil {
		return nil, err
	}
	state := framework.NewCycleState()
	cycle = &pluginCycle{pod: pod, state: reflect.ValueOf(state), activate: framework.NewPodsToActivate()}
	state.Write(framework.PodsToActivateKey, cycle.activate)
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.cycles[asked.Cycle] = cycle
	return cycle, nil
}

func (s *pluginServer) clone(asked *question) error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	cloned, found := s.cycles[asked.Cloned]
	if !found {
		return nil // no plugin was asked in it: the first question begins it
	}
	state := cloned.state.MethodByName("Clone").Call(nil)[0]
	s.cycles[asked.Cycle] = &pluginCycle{pod: cloned.pod, state: state, activate: cloned.activate}
	return nil
}

func (s *pluginServer) updateSnapshot() error {
	s.snapshots.Lock()
	defer s.snapshots.Unlock()
	return s.sched.Cache.UpdateSnapshot(klog.FromContext(s.ctx), s.sched.nodeInfoSnapshot)
}

// preFilterOthers calls PreFilter of the profile's plugins that are upstream's own.
func (s *pluginServer) preFilterOthers(profile any, cycle *pluginCycle) {
	nodes, err := s.sched.nodeInfoSnapshot.NodeInfos().List()
	if err != nil {
		return
	}
	registered := s.registeredIn(profile)
	skipped := sets.New[string]()
	for _, plugin := range frameworkruntime.PreFiltersOf(profile) {
		if slices.ContainsFunc(registered, func(other any) bool { return nameOf(other) == nameOf(plugin) }) {
			continue
		}
		results := call(plugin, "PreFilter", s.ctx, cycle.state, cycle.pod, nodes)
		if statusOf(results[1]).Code == skipCode {
			skipped.Insert(nameOf(plugin))
		}
	}
	call(cycle.state, "SetSkipFilterPlugins", skipped)
}

func (s *pluginServer) registeredIn(profile any) []any {
	var plugins []any
	for _, name := range s.names {
		if plugin := frameworkruntime.PluginOf(profile, name); plugin != nil {
			plugins = append(plugins, plugin)
		}
	}
	return plugins
}

const (
	waitCode = 4
	skipCode = 5
)

// hold has the pod wait here once the last plugin was asked for permission, as the framework does.
func (s *pluginServer) hold(profile, plugin any, pod *v1.Pod, status statusAnswer) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if status.Code == waitCode {
		s.holding[pod.UID] = append(s.holding[pod.UID], nameOf(plugin))
	} else if status.Code != 0 {
		delete(s.holding, pod.UID)
	}
	if plugin != frameworkruntime.LastPermitOf(profile, s.registeredIn(profile)) {
		return
	}
	if holding := s.holding[pod.UID]; len(holding) > 0 {
		frameworkruntime.Hold(profile, pod, holding)
	}
	delete(s.holding, pod.UID)
}

// wait tells what became of a pod that waits: for the other process, which holds it.
func (s *pluginServer) wait(profile any, asked *question, given *answer) {
	status, decided := frameworkruntime.Held(profile, asked.Pod.UID)
	if !decided {
		return
	}
	given.Decided = true
	value := reflect.ValueOf(status)
	given.Statuses = []statusAnswer{statusOf(value)}
	rejecting := ""
	if !value.IsNil() {
		rejecting = value.MethodByName("Plugin").Call(nil)[0].String()
	}
	for _, name := range s.names {
		if plugin := frameworkruntime.PluginOf(profile, name); plugin != nil && has(plugin, "Permit") {
			given.Names = append(given.Names, name)
			if nameOf(plugin) == rejecting {
				given.Plugin = name
			}
		}
	}
}

func has(plugin any, method string) bool {
	return reflect.ValueOf(plugin).MethodByName(method).IsValid()
}

// extensionsOf is what a method such as PreFilterExtensions returns; invalid where that is nil.
func extensionsOf(plugin any, method string) reflect.Value {
	if !has(plugin, method) {
		return reflect.Value{}
	}
	return call(plugin, method)[0].Elem()
}

func nameOf(plugin any) string { return call(plugin, "Name")[0].String() }

// call calls a method; a reflect.Value stands for what it holds.
func call(target any, method string, arguments ...any) []reflect.Value {
	value, reflected := target.(reflect.Value)
	if !reflected {
		value = reflect.ValueOf(target)
	}
	return callFunction(value.MethodByName(method), arguments...)
}

func callFunction(function reflect.Value, arguments ...any) []reflect.Value {
	values := make([]reflect.Value, function.Type().NumIn())
	for i := range values {
		values[i] = fitting(arguments[i], function.Type().In(i))
	}
	return function.Call(values)
}

// fitting makes a list of anything a list of the type that a function takes, and nil its zero.
func fitting(argument any, wanted reflect.Type) reflect.Value {
	if value, reflected := argument.(reflect.Value); reflected {
		return value
	}
	if argument == nil {
		return reflect.Zero(wanted)
	}
	list, mixed := argument.([]any)
	if !mixed {
		return reflect.ValueOf(argument)
	}
	fitted := reflect.MakeSlice(wanted, len(list), len(list))
	for i := range list {
		fitted.Index(i).Set(reflect.ValueOf(list[i]))
	}
	return fitted
}

// statusOf reads a *Status, whose nil is Success.
func statusOf(status reflect.Value) statusAnswer {
	if status.IsNil() {
		return statusAnswer{}
	}
	reasons, _ := status.MethodByName("Reasons").Call(nil)[0].Interface().([]string)
	return statusAnswer{Code: status.MethodByName("Code").Call(nil)[0].Int(), Reasons: reasons}
}

// namesOf are the names in a set; nil where there is no set.
func namesOf(set reflect.Value) []string {
	if set.IsNil() {
		return nil
	}
	names := []string{}
	for _, key := range set.MapKeys() {
		names = append(names, key.String())
	}
	slices.Sort(names)
	return names
}

// nominatedBy is what a *PostFilterResult says of the nomination; nil: nothing.
func nominatedBy(result reflect.Value) *string {
	if result.IsNil() {
		return nil
	}
	info := result.Elem().FieldByName("NominatingInfo")
	if info.IsNil() || info.Elem().FieldByName("NominatingMode").Int() == 0 {
		return nil
	}
	name := info.Elem().FieldByName("NominatedNodeName").String()
	return &name
}
