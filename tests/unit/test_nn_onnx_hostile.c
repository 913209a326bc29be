/* ONNX files that no exporter writes: every op with inputs that are missing, of another type, of no or too many
 * dimensions, with outputs it has not, sizes and axes out of range. Each is refused with a reason, by the computation
 * of constants and by the builder alike; none is read past its end. */
#include "test.h"

#include "nn/nn.h"
#include "onnx/onnx.h"
#include "onnx_text.h"

static enum ebb_status build(const struct ebb_str *bytes, struct ebb_error *err)
{
    struct ebb_arena arena;
    struct nn_config config;
    struct ebb_report report;
    struct tensor_session *s;
    struct nn_builder b;
    struct nn_output outputs[NN_PORTS];
    tensor_id inputs[NN_PORTS];
    size_t count;
    ebb_arena_init(&arena);
    enum ebb_status status =
        nn_config_from_text(&arena, "t.onnx", bytes->data, bytes->length, &config, &report, err);
    EBB_THEN(status, nn_config_check(&config, err));
    if (status == EBB_OK) {
        CHECK_OK(tensor_session_create(&s, NULL, err), err);
        nn_builder_init(&b, s, &(struct nn_mode){.is_training = true});
        status = nn_leaves(&b, &config, 2, inputs, err);
        EBB_THEN(status, nn_build(&b, &config, inputs, outputs, &count, err));
        nn_builder_fini(&b);
        tensor_session_destroy(s);
    }
    ebb_arena_fini(&arena);
    return status;
}

static const struct {
    int opset;
    const char *file, *reason;
} hostile[] = {
    /* axes: too many, twice, out of range */
    {11, "x:f[2,4] w=f[4,4] MatMul(x,w)->h ReduceSum(h)->y{axes=[0*4000]}", "named twice"},
    {17, "x:f[2,4] w=f[4,4] a=i[3]:0,1,0 MatMul(x,w)->h ReduceSum(h,a)->y", "named twice"},
    {17, "x:f[2,4] a=i[1]:7 ReduceSum(x,a)->y", "axis 7 of 2"},
    {13, "x:f[2,4] Transpose(x)->y{perm=[0,0]}", "named twice"},
    {13, "x:f[2,4] Transpose(x)->y{perm=[0,5]}", "axis 5 of 2"},
    {14, "x:f[2,4] v=i[2,1] s=i[2]:1,1 e=i[2]:2,2 a=i[2]:0,0 Slice(v,s,e,a)->c Reshape(x,c)->y",
     "named twice"},
    {14, "x:f[2,4] s=i[2]:0,0 e=i[2]:1,1 a=i[2]:0,0 Slice(x,s,e,a)->y", "named twice"},
    {14, "x:f[2,4] s=i[9] e=i[9] Slice(x,s,e)->y", "not of one length"},
    {14, "x:f[2,4] CumSum(x,k)->y k=i[2]:0,1", "2 axes"},
    /* names of outputs, and more of them than the op has */
    {14, "x:f[2,4] w=f[4,4] b=f[4] Transpose(w)->t MatMul(x,t)->h Add(h,b)->,y",
     "Add has 2 outputs"},
    {14, "x:f[2,4] w=f[4,4] Transpose(w)->t MatMul(x,t)->,y", "MatMul has 2 outputs"},
    {14, "x:f[2,4] Shape(x)->,y", "Shape has 2 outputs"},
    {14, "x:f[2,4] MaxPool(x)->,y", "output 0 has no name"},
    {14, "x:f[2,4] TopK(x,k)->,y k=i[1]:1", "output 0 has no name"},
    {14, "x:f[2,4] Relu(x)->y,z,u", "Relu has 3 outputs"},
    /* inputs that are not there */
    {14, "x:f[2,4] w=f[4,4] MatMul(x,w)->h Div()->y", "Div has 0 inputs"},
    {14, "x:f[2,4] Div(x,)->y", "input 1 is missing"},
    {14, "x:f[2,4] Sum(x,,x)->y", "input 1 is missing"},
    {14, "x:f[2,4] Concat(x,,x)->y{axis=0}", "input 1 is missing"},
    {14, "x:f[2,4] Where(x)->y", "Where has 1 inputs"},
    {14, "x:f[2,4] w=f[4,4] Foo(x)->a Softmax(,a)->p MatMul(p,w)->y", "Softmax has 2 inputs"},
    {18, "x:f[2,4] ReduceMean()->m Sub(x,m)->d Div(d,d)->y", "ReduceMean"},
    {14, "x:f[2,4] Einsum()->y{equation='ij->ij'}", "Einsum has 0 inputs"},
    /* inputs of another type: places, sizes, scales, lengths, truth */
    {14, "x:f[2,4] i=f[2]:0,1 Gather(x,i)->y", "input 1 is of type FLOAT, allowed: integers"},
    {14, "x:f[2,4] t=f[2,4] i=f[2]:0,1 Gather(t,i)->g Add(x,g)->y", "input 1 is of type FLOAT"},
    {14, "x:f[2,1,4,4] s=i[4]:1,1,2,2 Resize(x,,s)->y{mode='nearest'}", "input 2 is of type INT64"},
    {14, "x:f[2,1,4,4] s=f[4]:2,1,8,8 Resize(x,,,s)->y{mode='nearest'}",
     "input 3 is of type FLOAT"},
    {14, "x:f[5,2,4] w=f[1,12,4] r=f[1,12,3] n=f[2]:5 LSTM(x,w,r,,n)->y{hidden_size=3}",
     "input 4 is of type FLOAT"},
    {14, "x:f[2,4] s=f[1]:8 Reshape(x,s)->y", "input 1 is of type FLOAT"},
    {14, "x:f[2,4] w=f[2,4] Where(w,x,x)->y", "input 0 is of type FLOAT, allowed: BOOL"},
    {14, "x:f[2,4] w=i[2,4] Add(x,w)->y", "types FLOAT and INT64"},
    {14, "x:f[2,4] r=s[1] Dropout(x,r)->y", "input 1 is of type STRING"},
    {14, "x:f[2,4] c=c[2] Equal(c,c)->e Where(e,x,x)->y", "COMPLEX64"},
    {14, "x:f[2,4] c=c[2] Shape(c)->e Reshape(x,e)->y", "COMPLEX64"},
    {13,
     "x:f[2,4] a=q[2,2]:1 s=f[]:1 z=q[]:0 f=f[]:0 QLinearMatMul(a,s,z,a,s,z,s,f)->u Softmax(u)->p "
     "ReduceMax(p)->m{keepdims=0} Add(x,m)->y",
     "input 7 is of type FLOAT, allowed: integers of 8 bits"},
    {13,
     "x:f[2,4] a=q[1,1,2,2]:1 w=q[1,1,1,1]:1 z=s[] ConvInteger(a,w,z)->u Cast(u)->f{to=1} "
     "ReduceMax(f)->m{keepdims=0} Add(x,m)->y",
     "input 2 is of type STRING"},
    {14, "x:f[2,4] t=S[2] u=S[2] a=i[2]:2,4 Equal(t,u)->e Where(e,a,a)->s Reshape(x,s)->y",
     "texts lies in another file"},
    {14, "x:f[2,4] t=s[2] Relu(t)->r Shape(r)->s Reshape(x,s)->y", "input 0 is of type STRING"},
    {14, "x:f[2,4] Relu(x)->h Cast(h)->b{to=9} Cast(b)->y{to=1}", "truth"},
    /* attributes: of another kind, twice, out of range */
    {14, "x:f[2,4] Softmax(x)->y{axis=1.0}", "attribute 'axis' is not an integer"},
    {14, "x:f[2,4] Elu(x)->y{alpha=2}", "attribute 'alpha' is not a number"},
    {14, "x:f[2,4] Softmax(x)->y{axis=1;axis=0}", "'axis' is there twice"},
    {14, "x:f[2,4,4,4] DepthToSpace(x)->y{blocksize=4294967296}", "blocks"},
    {14,
     "x:f[2,4] v=f[0,2147483647,0,1] SpaceToDepth(v)->b{blocksize=65536} Shape(b)->s "
     "Reshape(x,s)->y",
     "blocks"},
    {14, "x:f[2,1,4,4] w=f[1,1,1,1] ConvTranspose(x,w)->y{strides=[2]}", "strides has 1 numbers"},
    {14, "x:f[2,1,4,4] w=f[1,1,1,1] Conv(x,w)->y{auto_pad='SAME'}", "auto_pad is 'SAME'"},
    {14, "x:f[2,1,4,4] w=f[4,1,1,1] Conv(x,w)->y{group=0}", "groups"},
    {14, "x:f[2,4] s=i[]:2 ConstantOfShape(s)->c{value=i[2]:1} Reshape(x,c)->y", "one element"},
    {14, "x:f[2,4] Dropout(x,r)->y r=f[]:1.5", "a ratio of 1.5"},
    /* sizes: 0, negative, too large, that do not fit */
    {14, "x:f[2,4] a=f[0,3] i=i[0,1] GatherND(a,i)->g{batch_dims=1} Shape(g)->s Reshape(x,s)->y",
     "Reshape"},
    {14, "x:f[2,4] s=i[2]:2,5 Expand(x,s)->y", "size 4 to 5"},
    {14, "x:f[2,4] s=i[2]:-2,4 Expand(x,s)->y", "to -2"},
    {14, "x:f[2,4] r=i[5000]:1 Tile(x,r)->y", "5000 repeats"},
    {14, "x:f[2,4] p=i[4]:-1,5 Split(x,p)->y,a,b,c{axis=1}", "has size -1"},
    {14, "x:f[5,2,4] w=f[1,12,4,1,1] r=f[1,12,3] LSTM(x,w,r)->y{hidden_size=3}", "do not fit"},
    {14, "x:f[5,2,4] w=f[1,12,4] r=f[1,12,3] b=f[1] LSTM(x,w,r,b)->y{hidden_size=3}", "do not fit"},
    {14, "x:i[1,1,1,1,1,1,1] t=f[2,3,1,1,1,1] Gather(t,x)->y{axis=1}", "12 dimensions"},
    {14, "x:f[2,4] a=f[0,7] b~f[5,7] Einsum(a,b)->e{equation='ij,ij->j'} Add(x,e)->y",
     "'i' is 0 and 5"},
    {11,
     "x:f[2,4] v~f[1,1,2,2]:1,2,3,4 i=i[1,1,2,2]:3976025 s=i[4]:1,1,1000,10000 "
     "MaxUnpool(v,i,s)->u{kernel_shape=[1,1];pads=[2000,2000,0,0]} ReduceMax(u)->m{keepdims=0} "
     "Add(x,m)->y",
     "a size of the result is -1998"},
    {13,
     "x:f[2,4] v=f[0,3] p=i[4]:2,0,2,0 Pad(v,p)->u{mode='edge'} ReduceMax(u)->m{keepdims=0} "
     "Add(x,m)->y",
     "pads of axis 0"},
    {13,
     "x:f[2,4] v~f[1,1,4,4] r=f[8]:nan s=f[4]:1,1,2,2 "
     "Resize(v,r,s)->u{mode='linear';coordinate_transformation_mode='tf_crop_and_resize'} "
     "ReduceMax(u)->m{keepdims=0} Add(x,m)->y",
     "a region from nan"},
    {13, "x:f[2,4] w=f[2,4] c=f[3,2,2] Gemm(x,w,c)->y{transB=1}", "C does not fit"},
    /* steps */
    {13,
     "x:f[2,4] v~f[2,2,2,2,2,2,2,2] s=f[8]:4 Resize(v,,s)->u{mode='cubic'} "
     "ReduceMax(u)->m{keepdims=0} "
     "Add(x,m)->y",
     "more steps"},
    {13,
     "x:f[2,4] v~f[1,1,1,1] w=f[1,0,40000,40000] ConvTranspose(v,w)->u "
     "ReduceMax(u)->m{keepdims=0} Add(x,m)->y",
     "more steps"},
};

TEST(a_hostile_file__is_refused_with_its_reason)
{
    for (size_t i = 0; i < sizeof hostile / sizeof *hostile; i++) {
        struct ebb_str bytes = {0};
        struct ebb_error err = {0};
        onnx_text(hostile[i].file, hostile[i].opset, &bytes);
        enum ebb_status status = build(&bytes, &err);
        if (status == EBB_OK || !strstr(err.message, hostile[i].reason))
            fail_msg("%s: status %d, %s", hostile[i].file, (int)status, err.message);
        ebb_str_fini(&bytes);
    }
}

/* A chain as long as a file may have takes no stack. */
TEST(a_long_chain_of_quotients__is_built)
{
    struct ebb_str text = {0}, bytes = {0};
    struct ebb_error err = {0};
    enum { NODES = 200000 };
    ebb_str_add(&text, "x:f[2,4] c=f[]:1.5");
    for (int i = 0; i < NODES; i++) {
        char from[16], to[16];
        snprintf(from, sizeof from, i ? "v%d" : "x", i - 1);
        snprintf(to, sizeof to, i == NODES - 1 ? "y" : "v%d", i);
        ebb_str_printf(&text, " Div(%s,c)->%s", from, to);
    }
    onnx_text(ebb_str_c(&text), 14, &bytes);
    CHECK_OK(build(&bytes, &err), &err);
    ebb_str_fini(&text);
    ebb_str_fini(&bytes);
}

/* Reading the same large constant again and again is a computation, too. */
TEST(many_small_folds__have_a_limit)
{
    struct ebb_str text = {0}, bytes = {0};
    struct ebb_error err = {0};
    struct ebb_arena arena = {0};
    const struct onnx_model *m;
    struct onnx_value values[64] = {{0}};
    ebb_str_add(&text, "s=i[1]:100000 ConstantOfShape(s)->c");
    for (int i = 0; i < 20; i++)
        ebb_str_printf(&text, " ReduceMax(c)->r%d", i);
    ebb_str_add(&text, " Identity(r0)->y");
    onnx_text(ebb_str_c(&text), 14, &bytes);
    CHECK_OK(onnx_read(&arena, "t.onnx", bytes.data, bytes.length, &m, &err), &err);
    struct onnx_eval e = {.arena = &arena, .opset = 14, .room = 1 << 24, .steps = 3000000};
    CHECK_OK(onnx_eval_graph(&e, &m->graph, values, &err), &err);
    CHECK(e.steps < 1000000);
    CHECK_EQ(onnx_eval_graph(&e, &m->graph, values, &err), EBB_ELIMIT);
    CHECK(strstr(err.message, "more steps"));
    ebb_arena_fini(&arena);
    ebb_str_fini(&text);
    ebb_str_fini(&bytes);
}

TEST_MAIN()
