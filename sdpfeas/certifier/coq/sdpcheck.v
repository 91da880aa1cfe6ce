(* A checker of exact evidence about semidefinite problems, and the proof that it is sound.

   A point X gives every block b a symmetric real matrix X b. A block is PSD n, which asks that v'(X b)v >= 0 for all
   vectors v of length n, or Free. A row asks that the sum of q * X b i j over its terms q b i j is within bounds.
   Evidence holds integers: rows are multiplied by their denominators. It writes minus the adjoint as a sum of c v v'
   with c >= 0 (and w z' with X z = 0 known by earlier steps of facial reduction), or a multiple of a point as such a
   sum; the checker adds up coefficients. *)

Require Import List Bool Arith ZArith QArith Qreals Reals Lra Lia Psatz.
Import ListNotations.
Open Scope R_scope.

(* --- statements *)

Inductive block := PSD (n : nat) | Free.
Definition point := nat -> nat -> nat -> R.
Definition entry := (nat * nat * nat * Q)%type.
Definition term (q : Q) (b i j : nat) : entry := (b, i, j, q).
Record row := Row { lower : option Q; upper : option Q; entries : list entry }.
Record problem := Problem { blocks : list block; rows : list row }.

Definition sum {A} (l : list A) (f : A -> R) : R := fold_right (fun a s => f a + s) 0 l.
Definition value (X : point) (l : list entry) : R :=
  sum l (fun e => let '(b, i, j, q) := e in Q2R q * X b i j).
Definition form (n : nat) (M : nat -> nat -> R) (u v : nat -> R) : R :=
  sum (seq 0 n) (fun i => sum (seq 0 n) (fun j => u i * M i j * v j)).
Definition psd (n : nat) (M : nat -> nat -> R) : Prop := forall v, 0 <= form n M v v.
Definition within (lo hi : option Q) (x : R) : Prop :=
  match lo with Some q => Q2R q <= x | None => True end /\ match hi with Some q => x <= Q2R q | None => True end.
Definition feasible (P : problem) (X : point) : Prop :=
  (forall b i j, X b i j = X b j i) /\
  (forall b n, nth_error (blocks P) b = Some (PSD n) -> psd n (X b)) /\
  (forall r, In r (rows P) -> within (lower r) (upper r) (value X (entries r))).
Record objective := Objective { constant : Q; costs : list entry }.
Definition cost (C : objective) (X : point) : R := Q2R (constant C) + value X (costs C).

(* --- the checker *)

Definition whole (e : positive) (q : Q) : Z := (Qnum q * (Zpos e / QDen q))%Z.
Definition fits (e : positive) (q : Q) : bool := (Zpos e mod QDen q =? 0)%Z.
Definition fits_end (e : positive) (o : option Q) : bool := match o with Some q => fits e q | None => true end.
Definition zterm := (nat * nat * nat * Z)%type.
Definition wholes (e : positive) (y : Z) (l : list entry) : list zterm :=
  map (fun t => let '(b, i, j, q) := t in (b, i, j, (y * whole e q)%Z)) l.
Definition fits_entries (e : positive) (l : list entry) : bool := forallb (fun t => fits e (snd t)) l.
Definition fits_row (t : positive * row) : bool :=
  let (e, r) := t in fits_end e (lower r) && fits_end e (upper r) && fits_entries e (entries r).

(* Lower triangles of all blocks, by rows. *)
Definition matrices := list (list (list Z)).
Fixpoint bump {A} (d : A) (n : nat) (f : A -> A) (l : list A) : list A :=
  match n, l with
  | O, [] => [f d]
  | O, a :: l => f a :: l
  | S n, [] => d :: bump d n f []
  | S n, a :: l => a :: bump d n f l
  end.
Definition add (T : matrices) (t : zterm) : matrices :=
  let '(b, i, j, z) := t in bump (@nil (list Z)) b (bump (@nil Z) (Nat.max i j) (bump 0%Z (Nat.min i j) (Z.add z))) T.
Definition adds (l : list zterm) (T : matrices) : matrices := fold_left add l T.
Definition get (T : matrices) (b i j : nat) : Z := nth (Nat.min i j) (nth (Nat.max i j) (nth b T []) []) 0%Z.
Definition zero (T : matrices) : bool := forallb (forallb (forallb (Z.eqb 0))) T.

Definition vec := list (nat * Z).           (* index and entry *)
Definition square := (nat * Z * vec)%type.  (* block, c, v: c v v' *)
Definition cross := (nat * vec)%type.       (* k, w: w z', where z is the vector number k with X z = 0 *)
Record step := Step { multipliers : list Z; squares : list square; crosses : list cross }.

(* Vectors: from index i on the entries l, or 1 at i and z at j. *)
Definition dense (i : nat) (l : list Z) : vec := filter (fun p => negb (snd p =? 0)%Z) (combine (seq i (length l)) l).
Definition two (i j : nat) (z : Z) : vec := [(i, 1%Z); (j, z)].
Definition outer (b : nat) (c : Z) (u v : vec) : list zterm :=
  flat_map (fun p => let z := (c * snd p)%Z in map (fun q => (b, fst p, fst q, (z * snd q)%Z)) v) u.
Definition square_terms (t : square) : list zterm := let '(b, c, v) := t in outer b c v v.
Definition side (P : problem) (b : nat) : option nat :=
  match nth_error (blocks P) b with Some (PSD n) => Some n | _ => None end.
Definition inside (P : problem) (b : nat) (v : vec) : bool :=
  match side P b with Some n => forallb (fun p => fst p <? n)%nat v | None => false end.
Definition square_fits (P : problem) (t : square) : bool := let '(b, c, v) := t in (0 <=? c)%Z && inside P b v.
Definition cross_fits (P : problem) (K : list (nat * vec)) (t : cross) : bool :=
  match nth_error K (fst t) with Some (b, z) => inside P b (snd t) && inside P b z | None => false end.
Definition cross_terms (K : list (nat * vec)) (t : cross) : list zterm :=
  match nth_error K (fst t) with Some (b, z) => outer b 1 (snd t) z | None => [] end.

Definition bounds := list (option Z * option Z).
Definition given (R : list (positive * row)) : bounds :=
  map (fun t : positive * row => let (e, r) := t in (option_map (whole e) (lower r), option_map (whole e) (upper r))) R.
Definition pick (y : Z) (p : option Z * option Z) : option Z :=
  if (y =? 0)%Z then Some 0%Z else if (0 <=? y)%Z then fst p else snd p.
Fixpoint beta (ys : list Z) (bs : bounds) : option Z :=
  match ys, bs with
  | y :: ys, p :: bs =>
      match pick y p, beta ys bs with Some q, Some s => Some (y * q + s)%Z | _, _ => None end
  | _, _ => Some 0%Z
  end.
Fixpoint tighten (ys : list Z) (bs : bounds) : bounds :=
  match ys, bs with
  | y :: ys, p :: bs => (if (y =? 0)%Z then p else (pick y p, pick y p)) :: tighten ys bs
  | _, _ => bs
  end.
Fixpoint adjoint (ys : list Z) (R : list (positive * row)) : list zterm :=
  match ys, R with
  | y :: ys, (e, r) :: R => wholes e y (entries r) ++ adjoint ys R
  | _, _ => []
  end.
Definition exposed (s : step) : list (nat * vec) :=
  map (fun t => (fst (fst t), snd t)) (filter (fun t => 0 <? snd (fst t))%Z (squares s)).
Definition balanced P R (goal : list zterm) K (s : step) : bool :=
  forallb (square_fits P) (squares s) && forallb (cross_fits P K) (crosses s) &&
  zero (adds goal (adds (adjoint (multipliers s) R)
    (adds (flat_map square_terms (squares s)) (adds (flat_map (cross_terms K) (crosses s)) [])))).
Fixpoint bounded P R goal (low : Z) K (bs : bounds) (l : list step) : bool :=
  match l with
  | [] => false
  | s :: rest =>
      match beta (multipliers s) bs, rest with
      | None, _ => false
      | Some v, [] => (low <=? v)%Z && balanced P R goal K s
      | Some v, _ => (v =? 0)%Z && balanced P R [] K s &&
                     bounded P R goal low (K ++ exposed s) (tighten (multipliers s) bs) rest
      end
  end.
(* es: a common denominator of every row. *)
Definition check_infeasible (P : problem) (es : list positive) (l : list step) : bool :=
  let R := combine es (rows P) in forallb fits_row R && bounded P R [] 1 [] (given R) l.
(* The multipliers prove s * e * sign * (objective - constant) >= low. *)
Definition check_bound (P : problem) (es : list positive) (l : list step)
    (sign : Z) (C : objective) (e s : positive) (low : Z) (v : Q) : bool :=
  let R := combine es (rows P) in let d := (v - constant C)%Q in
  forallb fits_row R && fits_entries e (costs C) && (sign * Qnum d * Zpos (s * e) <=? low * QDen d)%Z &&
  bounded P R (wholes e (- sign * Zpos s) (costs C)) low [] (given R) l.

(* A part of a point: a sum of squares, and a number on every free block. A point is (m * one part + another) / k:
   short numbers, and the exact rest of the entries that have long denominators. *)
Record part := Part { summands : list square; numbers : list (nat * Z) }.
(* For a small entry z, with a share u > |z| of the diagonal. *)
Definition left_over (u : Z) (t : zterm) : list square :=
  let '(b, i, j, z) := t in
  if (i =? j)%nat then [(b, (u + z)%Z, dense i [1%Z])]
  else let w := (u - Z.abs z)%Z in [(b, Z.abs z, two i j (Z.sgn z)); (b, w, dense i [1%Z]); (b, w, dense j [1%Z])].
Definition low_terms (t : square) : list zterm :=
  filter (fun t => let '(_, i, j, _) := t in j <=? i)%nat (square_terms t).
Definition table (p : part) : matrices :=
  adds (map (fun t => (fst t, O, O, snd t)) (numbers p)) (adds (flat_map low_terms (summands p)) []).
Definition part_fits (P : problem) (p : part) : bool :=
  forallb (square_fits P) (summands p) &&
  forallb (fun t => match side P (fst t) with Some _ => false | None => true end) (numbers p).
Definition zvalue_at (T : matrices) (l : list zterm) : Z :=
  fold_left (fun s t => let '(b, i, j, z) := t in (z * get T b i j + s)%Z) l 0%Z.
Definition mixed_at (m : positive) (T U : matrices) (l : list zterm) : Z := (Zpos m * zvalue_at T l + zvalue_at U l)%Z.
Definition zwithin (k : positive) (p : option Z * option Z) (x : Z) : bool :=
  match fst p with Some z => (Zpos k * z <=? x)%Z | None => true end &&
  match snd p with Some z => (x <=? Zpos k * z)%Z | None => true end.
Definition holds_at (k m : positive) (T U : matrices) (t : positive * row) : bool :=
  let (e, r) := t in
  fits_row t && zwithin k (option_map (whole e) (lower r), option_map (whole e) (upper r))
    (mixed_at m T U (wholes e 1 (entries r))).
Definition check_feasible (P : problem) (es : list positive) (k m : positive) (p q : part) : bool :=
  part_fits P p && part_fits P q && (length es =? length (rows P))%nat &&
  (let T := table p in let U := table q in forallb (holds_at k m T U) (combine es (rows P))).
Definition check_attained (k m : positive) p q (sign : Z) (C : objective) (e : positive) (v : Q) : bool :=
  let d := (v - constant C)%Q in
  fits_entries e (costs C) &&
  (sign * mixed_at m (table p) (table q) (wholes e 1 (costs C)) * QDen d <=? sign * Qnum d * Zpos (k * e))%Z.

(* --- sums *)

Lemma sum_ext A (l : list A) f g : (forall a, In a l -> f a = g a) -> sum l f = sum l g.
Proof.
  induction l as [|a l IH]; simpl; intros H; [reflexivity|].
  rewrite (H a), IH; auto.
Qed.
Lemma sum_cons A a (l : list A) f : sum (a :: l) f = f a + sum l f.
Proof. reflexivity. Qed.
Lemma sum_app A (l k : list A) f : sum (l ++ k) f = sum l f + sum k f.
Proof. induction l; simpl; [|rewrite IHl]; lra. Qed.
Lemma sum_plus A (l : list A) f g : sum l (fun a => f a + g a) = sum l f + sum l g.
Proof. induction l; simpl; [|rewrite IHl]; lra. Qed.
Lemma sum_mult A (l : list A) c f : sum l (fun a => c * f a) = c * sum l f.
Proof. induction l; simpl; [|rewrite IHl]; lra. Qed.
Lemma sum_map A B (g : A -> B) (l : list A) f : sum (map g l) f = sum l (fun a => f (g a)).
Proof. induction l; simpl; congruence. Qed.
Lemma sum_flat A B (g : A -> list B) (l : list A) f : sum (flat_map g l) f = sum l (fun a => sum (g a) f).
Proof. induction l; simpl; [|rewrite sum_app, IHl]; reflexivity. Qed.
Lemma sum_zero A (l : list A) : sum l (fun _ => 0) = 0.
Proof. induction l; simpl; lra. Qed.
Lemma sum_swap A B (l : list A) (k : list B) f :
  sum l (fun a => sum k (fun b => f a b)) = sum k (fun b => sum l (fun a => f a b)).
Proof.
  induction l; simpl; [symmetry; apply sum_zero|]. rewrite IHl, <- sum_plus. reflexivity.
Qed.
Lemma sum_pos A (l : list A) f : (forall a, In a l -> 0 <= f a) -> 0 <= sum l f.
Proof.
  induction l as [|a l IH]; simpl; intros H; [lra|].
  pose proof (H a (or_introl eq_refl)). assert (0 <= sum l f) by (apply IH; auto). lra.
Qed.
Lemma sum_pos_zero A (l : list A) f :
  (forall a, In a l -> 0 <= f a) -> sum l f <= 0 -> forall a, In a l -> f a = 0.
Proof.
  induction l as [|b l IH]; simpl; intros H S a I; [contradiction|].
  pose proof (H b (or_introl eq_refl)). assert (0 <= sum l f) by (apply sum_pos; auto).
  destruct I as [<-|I]; [lra|]. apply IH; auto. lra.
Qed.
Lemma sum_delta n a (c : R) g : (a < n)%nat -> sum (seq 0 n) (fun i => (if (a =? i)%nat then c else 0) * g i) = c * g a.
Proof.
  intros L. assert (forall m, sum (seq m (n - m)) (fun i => (if (a =? i)%nat then c else 0) * g i) =
    if (m <=? a)%nat then c * g a else 0) as W.
  { intros m. remember (n - m)%nat as k eqn:E. revert m E. induction k as [|k IH]; intros m E; simpl.
    - destruct (Nat.leb_spec m a); [lia|reflexivity].
    - rewrite IH by lia. destruct (Nat.eqb_spec a m), (Nat.leb_spec (S m) a), (Nat.leb_spec m a); subst; try lia; lra. }
  specialize (W 0%nat). rewrite Nat.sub_0_r in W. exact W.
Qed.

(* --- quadratic forms *)
Lemma form_sym n M u v : (forall i j, M i j = M j i) -> form n M u v = form n M v u.
Proof.
  intros S. unfold form. rewrite sum_swap. apply sum_ext; intros i _. apply sum_ext; intros j _.
  rewrite S. ring.
Qed.
Lemma form_add n M u v t w :
  form n M (fun i => u i + t * v i) w = form n M u w + t * form n M v w.
Proof.
  unfold form. rewrite <- sum_mult, <- sum_plus. apply sum_ext; intros i _.
  rewrite <- sum_mult, <- sum_plus. apply sum_ext; intros j _. ring.
Qed.
Lemma form_ext n M u u' v v' :
  (forall i, u i = u' i) -> (forall i, v i = v' i) -> form n M u v = form n M u' v'.
Proof.
  intros A B. unfold form. apply sum_ext; intros i _. apply sum_ext; intros j _. rewrite A, B. reflexivity.
Qed.
(* v'Mv = 0 only if w'Mv = 0 for all w *)
Lemma form_zero n M v :
  (forall i j, M i j = M j i) -> psd n M -> form n M v v = 0 -> forall w, form n M w v = 0.
Proof.
  intros S P Z w.
  assert (K : forall t, 0 <= form n M w w + 2 * t * form n M w v).
  { intros t. specialize (P (fun i => w i + t * v i)).
    rewrite form_add in P. rewrite (form_sym n M w) in P by assumption.
    rewrite (form_sym n M v (fun i => w i + t * v i)) in P by assumption.
    rewrite !form_add in P. rewrite (form_sym n M v w) in P by assumption. rewrite Z in P. lra. }
  destruct (Req_dec (form n M w v) 0) as [E|E]; [assumption|exfalso].
  specialize (K (- (form n M w w + 1) / (2 * form n M w v))).
  replace (2 * (- (form n M w w + 1) / (2 * form n M w v)) * form n M w v) with (- (form n M w w + 1)) in K
    by (field; assumption).
  lra.
Qed.


Definition real (v : vec) (i : nat) : R := sum v (fun p => if (fst p =? i)%nat then IZR (snd p) else 0).
Definition small (n : nat) (v : vec) : Prop := forall p, In p v -> (fst p < n)%nat.

Lemma sum_real n v g : small n v -> sum (seq 0 n) (fun i => real v i * g i) = sum v (fun p => IZR (snd p) * g (fst p)).
Proof.
  intros S. unfold real. transitivity (sum (seq 0 n) (fun i => sum v (fun p => (if (fst p =? i)%nat then IZR (snd p) else 0) * g i))).
  - apply sum_ext; intros i _. rewrite Rmult_comm, <- sum_mult. apply sum_ext; intros p _. ring.
  - rewrite sum_swap. apply sum_ext; intros p I. apply sum_delta, S, I.
Qed.
Lemma form_real n M u v : small n u -> small n v ->
  form n M (real u) (real v) = sum u (fun p => sum v (fun q => IZR (snd p) * IZR (snd q) * M (fst p) (fst q))).
Proof.
  intros U V. unfold form.
  transitivity (sum (seq 0 n) (fun i => real u i * sum v (fun q => IZR (snd q) * M i (fst q)))).
  - apply sum_ext; intros i _. rewrite <- (sum_real n v (fun j => M i j) V), <- sum_mult.
    apply sum_ext; intros j _. ring.
  - rewrite (sum_real n u _ U). apply sum_ext; intros p _. rewrite <- sum_mult. apply sum_ext; intros q _. ring.
Qed.

(* --- integer rows *)

Definition zvalue (X : point) (l : list zterm) : R := sum l (fun t => let '(b, i, j, z) := t in IZR z * X b i j).

Lemma zvalue_app X l k : zvalue X (l ++ k) = zvalue X l + zvalue X k.
Proof. apply sum_app. Qed.
Lemma positive_R e : 0 < IZR (Zpos e).
Proof. apply IZR_lt. reflexivity. Qed.
Lemma whole_sound e q : fits e q = true -> IZR (whole e q) = IZR (Zpos e) * Q2R q.
Proof.
  unfold fits, whole, Q2R. intros F. apply Z.eqb_eq in F.
  pose proof (Z.div_mod (Zpos e) (QDen q) ltac:(discriminate)) as D. rewrite F, Z.add_0_r in D.
  pose proof (positive_R (Qden q)) as N. rewrite D at 2. rewrite !mult_IZR. field. lra.
Qed.
Lemma wholes_sound X e y l : fits_entries e l = true -> zvalue X (wholes e y l) = IZR y * IZR (Zpos e) * value X l.
Proof.
  unfold fits_entries, zvalue, wholes, value. intros F. rewrite forallb_forall in F. rewrite sum_map, <- sum_mult.
  apply sum_ext. intros [[[b i] j] q] I. specialize (F _ I). cbn [snd] in F.
  rewrite mult_IZR, (whole_sound e q F). ring.
Qed.
Definition holds_z (X : point) (t : positive * row) (p : option Z * option Z) : Prop :=
  let x := zvalue X (wholes (fst t) 1 (entries (snd t))) in
  match fst p with Some z => IZR z <= x | None => True end /\ match snd p with Some z => x <= IZR z | None => True end.
Definition holds (X : point) (R : list (positive * row)) (bs : bounds) : Prop := Forall2 (holds_z X) R bs.

Lemma row_sound X e r : fits_row (e, r) = true ->
  (within (lower r) (upper r) (value X (entries r)) <->
   holds_z X (e, r) (option_map (whole e) (lower r), option_map (whole e) (upper r))).
Proof.
  intros F. unfold fits_row in F. apply andb_true_iff in F. destruct F as [F E]. apply andb_true_iff in F. destruct F as [A B].
  pose proof (positive_R e) as N. unfold holds_z, within. cbn [fst snd]. rewrite (wholes_sound X e 1 _ E), Rmult_1_l.
  destruct (lower r) as [l|], (upper r) as [u|]; cbn [option_map fits_end] in *;
  repeat match goal with K : fits _ _ = true |- _ => rewrite (whole_sound _ _ K); clear K end;
  split; intros [H K]; split; try exact I; first [nra|apply (Rmult_le_reg_l (IZR (Zpos e))); assumption].
Qed.
Lemma given_sound P X es : feasible P X -> forallb fits_row (combine es (rows P)) = true ->
  holds X (combine es (rows P)) (given (combine es (rows P))).
Proof.
  intros [_ [_ W]]. revert es. unfold holds. induction (rows P) as [|r rs IH]; intros [|e es] F; cbn; try constructor.
  - cbn [combine forallb] in F. apply andb_true_iff in F. destruct F as [F _].
    apply (row_sound X e r F). apply W. left; reflexivity.
  - cbn [combine forallb] in F. apply andb_true_iff in F. destruct F as [_ F].
    apply IH; [|exact F]. intros s I. apply W. right; exact I.
Qed.

(* --- sums of coefficients *)

Fixpoint along {A} (f : nat -> A -> R) (l : list A) : R :=
  match l with [] => 0 | a :: l => f O a + along (fun n => f (S n)) l end.
Definition total (X : point) (T : matrices) : R :=
  along (fun b M => along (fun i r => along (fun j z => IZR z * X b i j) r) M) T.

Lemma along_bump A (d : A) g n : forall f l, (forall m, f m d = 0) ->
  along f (bump d n g l) = along f l + (f n (g (nth n l d)) - f n (nth n l d)).
Proof.
  induction n as [|n IH]; intros f [|a l] H; cbn [bump along nth].
  - rewrite H. lra.
  - lra.
  - rewrite IH, H by (intros; apply H). replace (nth n [] d) with d by (destruct n; reflexivity). cbn [along]. lra.
  - rewrite IH by (intros; apply H). lra.
Qed.
Lemma total_add X T t : (forall b i j, X b i j = X b j i) ->
  total X (add T t) = total X T + zvalue X [t].
Proof.
  intros S. destruct t as [[[b i] j] z]. unfold total, add, zvalue. cbn [sum fold_right].
  rewrite along_bump by reflexivity. rewrite along_bump by reflexivity. rewrite along_bump by (intros; apply Rmult_0_l).
  rewrite plus_IZR. replace (X b (Nat.max i j) (Nat.min i j)) with (X b i j); [lra|].
  destruct (Nat.max_spec i j) as [[L ->]|[L ->]].
  - rewrite Nat.min_l by lia. apply S.
  - rewrite Nat.min_r by lia. reflexivity.
Qed.
Lemma total_adds X l : (forall b i j, X b i j = X b j i) -> forall T, total X (adds l T) = total X T + zvalue X l.
Proof.
  intros S. induction l as [|t l IH]; intros T; cbn [adds fold_left]; [unfold zvalue; cbn; lra|].
  change (fold_left add l (add T t)) with (adds l (add T t)). rewrite IH, total_add by exact S.
  change (t :: l) with ([t] ++ l). rewrite zvalue_app. lra.
Qed.
Lemma along_zero A (f : nat -> A -> R) l : (forall n a, In a l -> f n a = 0) -> along f l = 0.
Proof.
  revert f. induction l as [|a l IH]; intros f H; cbn [along]; [reflexivity|].
  rewrite H by (left; reflexivity). rewrite IH; [lra|]. intros n x I. apply H. right; exact I.
Qed.
Lemma zero_sound X T : zero T = true -> total X T = 0.
Proof.
  unfold zero, total. intros Z. rewrite forallb_forall in Z. apply along_zero. intros b M I. specialize (Z M I).
  rewrite forallb_forall in Z. apply along_zero. intros i r J. specialize (Z r J).
  rewrite forallb_forall in Z. apply along_zero. intros j z K. specialize (Z z K).
  apply Z.eqb_eq in Z. subst z. apply Rmult_0_l.
Qed.
Lemma inside_sound P b n v : side P b = Some n -> inside P b v = true -> small n v.
Proof.
  unfold inside. intros -> H p I. rewrite forallb_forall in H. apply Nat.ltb_lt, (H p I).
Qed.
Lemma inside_side P b v : inside P b v = true -> exists n, side P b = Some n /\ small n v.
Proof.
  intros H. destruct (side P b) as [n|] eqn:E; [|unfold inside in H; rewrite E in H; discriminate].
  exists n. split; [reflexivity|]. apply (inside_sound P b n v E H).
Qed.
Lemma zvalue_outer X n b c u v : small n u -> small n v ->
  zvalue X (outer b c u v) = IZR c * form n (X b) (real u) (real v).
Proof.
  intros U V. rewrite (form_real n _ u v U V). unfold zvalue, outer. rewrite sum_flat, <- sum_mult.
  apply sum_ext; intros p _. cbv zeta. rewrite sum_map, <- sum_mult. apply sum_ext; intros q _.
  rewrite !mult_IZR. ring.
Qed.
Lemma side_psd P X b n : feasible P X -> side P b = Some n -> psd n (X b).
Proof.
  intros [_ [D _]]. unfold side. destruct (nth_error (blocks P) b) as [[m|]|] eqn:E; try discriminate.
  intros [= ->]. apply (D b n E).
Qed.
Lemma square_sound P X t : feasible P X -> square_fits P t = true -> 0 <= zvalue X (square_terms t).
Proof.
  intros F. destruct t as [[b c] v]. unfold square_fits, square_terms. intros H. apply andb_true_iff in H.
  destruct H as [C I]. destruct (inside_side P b v I) as [n [E S]]. rewrite (zvalue_outer X n b c v v S S).
  apply Rmult_le_pos; [apply IZR_le, Z.leb_le, C|]. apply (side_psd P X b n F E).
Qed.

(* --- multipliers *)

Lemma pick_sound X t y p q : pick y p = Some q -> holds_z X t p ->
  IZR (y * q) <= zvalue X (wholes (fst t) y (entries (snd t))).
Proof.
  assert (zvalue X (wholes (fst t) y (entries (snd t))) = IZR y * zvalue X (wholes (fst t) 1 (entries (snd t)))) as E.
  { unfold zvalue, wholes. rewrite !sum_map, <- sum_mult. apply sum_ext. intros [[[b i] j] z] _. rewrite !mult_IZR. ring. }
  rewrite E, mult_IZR. clear E. unfold pick, holds_z. destruct p as [lo hi]. cbn [fst snd].
  destruct (Z.eqb_spec y 0) as [->|N].
  - intros _ _. lra.
  - destruct (Z.leb_spec 0 y) as [L|L]; intros -> [A B].
    + apply IZR_le in L. nra.
    + apply IZR_lt in L. nra.
Qed.
Lemma beta_sound X R bs : holds X R bs -> forall ys v, beta ys bs = Some v -> IZR v <= zvalue X (adjoint ys R).
Proof.
  intros H. induction H as [|[e r] p R bs W _ IH]; intros [|y ys] v; cbn [beta adjoint];
    try (intros [= <-]; unfold zvalue; simpl; lra).
  destruct (pick y p) as [q|] eqn:K; [|discriminate]. destruct (beta ys bs) as [s|] eqn:T; [|discriminate].
  intros [= <-]. rewrite zvalue_app, plus_IZR. specialize (IH ys s T).
  pose proof (pick_sound X (e, r) y p q K W) as A. cbn [fst snd] in A. lra.
Qed.
Lemma tighten_sound X R bs : holds X R bs -> forall ys v, beta ys bs = Some v ->
  zvalue X (adjoint ys R) <= IZR v -> holds X R (tighten ys bs).
Proof.
  intros H. induction H as [|[e r] p R bs W HR IH]; intros [|y ys] v; cbn [beta adjoint tighten].
  - constructor.
  - constructor.
  - intros _ _. constructor; assumption.
  - destruct (pick y p) as [q|] eqn:K; [|discriminate]. destruct (beta ys bs) as [s|] eqn:T; [|discriminate].
    intros [= <-]. rewrite zvalue_app, plus_IZR. intros L.
    pose proof (pick_sound X (e, r) y p q K W) as A. cbn [fst snd] in A. pose proof (beta_sound X R bs HR ys s T) as B.
    constructor; [|apply (IH ys s T); lra].
    destruct (Z.eqb_spec y 0) as [Z|N]; [exact W|].
    assert (IZR (y * q) = zvalue X (wholes e y (entries r))) as E by lra.
    assert (zvalue X (wholes e y (entries r)) = IZR y * zvalue X (wholes e 1 (entries r))) as E1.
    { unfold zvalue, wholes. rewrite !sum_map, <- sum_mult. apply sum_ext. intros [[[b i] j] z] _. rewrite !mult_IZR. ring. }
    rewrite E1, mult_IZR in E. apply Rmult_eq_reg_l in E; [|intros C; apply N, eq_IZR, C].
    unfold holds_z. cbn [fst snd]. rewrite <- E. split; apply Rle_refl.
Qed.

(* --- soundness of multipliers *)

Definition zeros P X (K : list (nat * vec)) : Prop :=
  forall b z n, In (b, z) K -> side P b = Some n -> forall w, form n (X b) w (real z) = 0.

Lemma crosses_zero P X K l : zeros P X K -> forallb (cross_fits P K) l = true -> zvalue X (flat_map (cross_terms K) l) = 0.
Proof.
  intros H. induction l as [|t l IH]; cbn [forallb flat_map]; intros C; [reflexivity|].
  apply andb_true_iff in C. destruct C as [C T]. rewrite zvalue_app, IH by exact T.
  unfold cross_fits, cross_terms in *. destruct (nth_error K (fst t)) as [[b z]|] eqn:E; [|discriminate].
  apply andb_true_iff in C. destruct C as [A B]. destruct (inside_side P b z B) as [n [S N]].
  rewrite (zvalue_outer X n b 1 _ z (inside_sound P b n _ S A) N), (H b z n (nth_error_In _ _ E) S). lra.
Qed.
Lemma balanced_sound P X R goal K s : feasible P X -> zeros P X K -> balanced P R goal K s = true ->
  zvalue X goal + zvalue X (adjoint (multipliers s) R) + sum (squares s) (fun t => zvalue X (square_terms t)) = 0 /\
  (forall t, In t (squares s) -> 0 <= zvalue X (square_terms t)).
Proof.
  intros F H B. unfold balanced in B. apply andb_true_iff in B. destruct B as [B Z]. apply andb_true_iff in B.
  destruct B as [Q C]. apply (zero_sound X) in Z. destruct F as [S D]. rewrite !total_adds in Z by exact S.
  rewrite (crosses_zero P X K _ H C) in Z. change (total X []) with 0 in Z.
  change (zvalue X (flat_map square_terms (squares s))) with
    (sum (flat_map square_terms (squares s)) (fun t => let '(b, i, j, z) := t in IZR z * X b i j)) in Z.
  rewrite sum_flat in Z.
  change (sum (squares s) (fun a => sum (square_terms a) (fun t => let '(b, i, j, z) := t in IZR z * X b i j)))
    with (sum (squares s) (fun a => zvalue X (square_terms a))) in Z.
  split; [lra|]. rewrite forallb_forall in Q. intros t I. apply (square_sound P X t (conj S D)), Q, I.
Qed.
Theorem bounded_sound P X R goal low : feasible P X -> forall l K bs,
  zeros P X K -> holds X R bs -> bounded P R goal low K bs l = true -> IZR low <= - zvalue X goal.
Proof.
  intros F. induction l as [|s rest IH]; intros K bs H W C; [discriminate|]. cbn [bounded] in C.
  destruct (beta (multipliers s) bs) as [v|] eqn:T; [|discriminate].
  pose proof (beta_sound X R bs W _ _ T) as LOW. destruct rest as [|s' rest'].
  - apply andb_true_iff in C. destruct C as [L B]. apply Z.leb_le, IZR_le in L.
    destruct (balanced_sound P X R goal K s F H B) as [E POS]. pose proof (sum_pos _ (squares s) _ POS). lra.
  - apply andb_true_iff in C. destruct C as [C V]. apply andb_true_iff in C. destruct C as [V0 B].
    apply Z.eqb_eq in V0. subst v. destruct (balanced_sound P X R [] K s F H B) as [E POS].
    change (zvalue X []) with 0 in E.
    assert (sum (squares s) (fun t => zvalue X (square_terms t)) <= 0) as UP by lra.
    pose proof (sum_pos _ (squares s) _ POS) as SP.
    apply (IH (K ++ exposed s) (tighten (multipliers s) bs)); [| |exact V].
    + intros b z n I S w. apply in_app_or in I. destruct I as [I|I]; [apply (H b z n I S)|].
      unfold exposed in I. apply in_map_iff in I. destruct I as [[[b' c] z'] [EQ I]]. cbn [fst snd] in EQ.
      injection EQ as -> ->. apply filter_In in I. destruct I as [I NZ]. cbn [fst snd] in NZ.
      pose proof (sum_pos_zero _ _ _ POS UP _ I) as Q0. unfold square_terms in Q0.
      unfold balanced in B. apply andb_true_iff in B. destruct B as [B _]. apply andb_true_iff in B. destruct B as [B _].
      rewrite forallb_forall in B. specialize (B _ I). apply andb_true_iff in B. destruct B as [_ B].
      pose proof (inside_sound P b n z S B) as SM. rewrite (zvalue_outer X n b c z z SM SM) in Q0.
      apply form_zero; [apply F|apply (side_psd P X b n F S)|].
      apply Z.ltb_lt, IZR_lt in NZ. apply Rmult_integral in Q0. destruct Q0 as [Q0|Q0]; [lra|exact Q0].
    + apply (tighten_sound X R bs W _ _ T). lra.
Qed.
Theorem infeasible_sound P es l : check_infeasible P es l = true -> ~ exists X, feasible P X.
Proof.
  unfold check_infeasible. cbv zeta. intros C [X F]. apply andb_true_iff in C. destruct C as [W C].
  pose proof (bounded_sound P X _ [] 1 F l [] _ ltac:(intros b z n []) (given_sound P X es F W) C) as L.
  unfold zvalue in L. simpl in L. lra.
Qed.
Lemma difference v c : Q2R (v - c) = IZR (Qnum (v - c)) * / IZR (QDen (v - c)).
Proof. reflexivity. Qed.
Theorem bound_sound P es l sign C e s low v : check_bound P es l sign C e s low v = true ->
  forall X, feasible P X -> IZR sign * Q2R v <= IZR sign * cost C X.
Proof.
  unfold check_bound. cbv zeta. intros H X F. apply andb_true_iff in H. destruct H as [H B]. apply andb_true_iff in H.
  destruct H as [H L]. apply andb_true_iff in H. destruct H as [W E].
  pose proof (bounded_sound P X _ _ low F l [] _ ltac:(intros b z n []) (given_sound P X es F W) B) as M.
  rewrite (wholes_sound X e _ _ E), mult_IZR, opp_IZR in M. apply Z.leb_le, IZR_le in L.
  rewrite !mult_IZR in L. change (Zpos (s * e)) with (Zpos s * Zpos e)%Z in L. rewrite mult_IZR in L.
  unfold cost. pose proof (difference v (constant C)) as D. rewrite Q2R_minus in D.
  pose proof (positive_R (Qden (v - constant C))) as ND. pose proof (positive_R e) as NE. pose proof (positive_R s) as NS.
  set (n := IZR (Qnum (v - constant C))) in *. set (d := IZR (QDen (v - constant C))) in *.
  assert (n = (Q2R v - Q2R (constant C)) * d) as N by (rewrite D; field; lra). rewrite N in L. clear D N.
  set (x := value X (costs C)) in *. set (a := IZR (Zpos s)) in *. set (b := IZR (Zpos e)) in *.
  assert (0 < a * b) as AB by (apply Rmult_lt_0_compat; assumption).
  assert (IZR sign * (Q2R v - Q2R (constant C)) * (a * b) <= IZR sign * x * (a * b)) as G.
  { apply (Rmult_le_reg_r d); [exact ND|]. nra. }
  apply Rmult_le_reg_r in G; [|exact AB]. lra.
Qed.

(* --- soundness of points *)

Definition at_r (k m : positive) (T U : matrices) : point := fun b i j =>
  / IZR (Zpos k) * (IZR (Zpos m) * IZR (get T b i j) + IZR (get U b i j)).
Definition same (b i j : nat) (t : zterm) : bool :=
  let '(c, p, q, _) := t in (c =? b)%nat && (Nat.max p q =? Nat.max i j)%nat && (Nat.min p q =? Nat.min i j)%nat.
Definition coefficient (b i j : nat) (l : list zterm) : R := sum l (fun t => if same b i j t then IZR (snd t) else 0).

Lemma nth_bump A (d : A) f n : forall m l, nth m (bump d n f l) d = if (n =? m)%nat then f (nth m l d) else nth m l d.
Proof.
  induction n as [|n IH]; intros [|m] [|a l]; cbn [bump nth Nat.eqb]; try reflexivity.
  - destruct m; reflexivity.
  - rewrite IH. destruct m; reflexivity.
  - apply IH.
Qed.
Lemma get_add T t b i j : get (add T t) b i j = ((if same b i j t then snd t else 0) + get T b i j)%Z.
Proof.
  destruct t as [[[c p] q] z]. unfold get, add, same. cbn [snd]. rewrite nth_bump.
  destruct (c =? b)%nat; cbn [andb]; [|reflexivity]. rewrite nth_bump.
  destruct (Nat.max p q =? Nat.max i j)%nat; cbn [andb]; [|reflexivity]. rewrite nth_bump.
  destruct (Nat.min p q =? Nat.min i j)%nat; reflexivity.
Qed.
Lemma get_adds l : forall T b i j, IZR (get (adds l T) b i j) = coefficient b i j l + IZR (get T b i j).
Proof.
  induction l as [|t l IH]; intros T b i j; [unfold coefficient; simpl; lra|].
  change (adds (t :: l) T) with (adds l (add T t)). rewrite IH, get_add, plus_IZR. unfold coefficient. rewrite sum_cons.
  destruct (same b i j t); lra.
Qed.
Lemma coefficient_app b i j l k : coefficient b i j (l ++ k) = coefficient b i j l + coefficient b i j k.
Proof. apply sum_app. Qed.
Lemma sum_filter A (p : A -> bool) l f : sum (filter p l) f = sum l (fun a => if p a then f a else 0).
Proof. induction l as [|a l IH]; simpl; [reflexivity|]. destruct (p a); rewrite <- IH; unfold sum; simpl; lra. Qed.
Lemma coefficient_square b i j c q v :
  coefficient b i j (low_terms (c, q, v)) = if (c =? b)%nat then IZR q * (real v i * real v j) else 0.
Proof.
  assert (real v i * real v j = real v (Nat.max i j) * real v (Nat.min i j)) as E.
  { destruct (Nat.max_spec i j) as [[L ->]|[L ->]]; [rewrite Nat.min_l by lia; ring|rewrite Nat.min_r by lia; ring]. }
  rewrite E. clear E. unfold coefficient, low_terms, square_terms, outer. rewrite sum_filter, sum_flat.
  transitivity (sum v (fun p => (if (fst p =? Nat.max i j)%nat then IZR (snd p) else 0) *
    ((if (c =? b)%nat then IZR q else 0) * real v (Nat.min i j)))).
  - apply sum_ext; intros p _. cbv zeta. rewrite sum_map. unfold real at 1. rewrite <- !sum_mult. apply sum_ext; intros r _.
    unfold same. cbn [snd]. rewrite !mult_IZR.
    destruct (Nat.eqb_spec c b); cbn [andb]; [|destruct (Nat.leb_spec (fst r) (fst p)); lra].
    destruct (Nat.leb_spec (fst r) (fst p)).
    + rewrite Nat.max_l, Nat.min_r by lia.
      destruct (fst p =? Nat.max i j)%nat, (fst r =? Nat.min i j)%nat; cbn [andb]; lra.
    + destruct (Nat.eqb_spec (fst p) (Nat.max i j)), (Nat.eqb_spec (fst r) (Nat.min i j)); lia || lra.
  - transitivity (((if (c =? b)%nat then IZR q else 0) * real v (Nat.min i j)) * real v (Nat.max i j)).
    + unfold real at 3. rewrite <- sum_mult. apply sum_ext; intros p _. ring.
    + destruct (c =? b)%nat; ring.
Qed.
Lemma coefficient_squares b i j sq : coefficient b i j (flat_map low_terms sq) =
  sum sq (fun t => let '(c, q, v) := t in if (c =? b)%nat then IZR q * (real v i * real v j) else 0).
Proof.
  induction sq as [|[[c q] v] sq IH]; [reflexivity|]. cbn [flat_map]. rewrite coefficient_app, coefficient_square, IH. reflexivity.
Qed.
Lemma get_table P p b n i j : part_fits P p = true -> side P b = Some n -> IZR (get (table p) b i j) =
  sum (summands p) (fun t => let '(c, q, v) := t in if (c =? b)%nat then IZR q * (real v i * real v j) else 0).
Proof.
  unfold part_fits. intros H E. apply andb_true_iff in H. destruct H as [_ H]. unfold table.
  rewrite !get_adds, coefficient_squares.
  replace (get [] b i j) with 0%Z by (unfold get; destruct b, (Nat.max i j), (Nat.min i j); reflexivity).
  replace (coefficient b i j (map (fun t : nat * Z => (fst t, O, O, snd t)) (numbers p))) with 0; [lra|]. symmetry.
  unfold coefficient. rewrite sum_map. rewrite forallb_forall in H.
  transitivity (sum (numbers p) (fun _ => 0)); [|apply sum_zero]. apply sum_ext. intros [c z] I. specialize (H _ I).
  cbn [fst snd same] in *. destruct (Nat.eqb_spec c b) as [->|]; [rewrite E in H; discriminate|reflexivity].
Qed.
Lemma square_form n c v w :
  form n (fun i j => c * (v i * v j)) w w = c * sum (seq 0 n) (fun i => v i * w i) ^ 2.
Proof.
  unfold form.
  replace (c * sum (seq 0 n) (fun i => v i * w i) ^ 2) with
    (sum (seq 0 n) (fun i => (c * sum (seq 0 n) (fun i => v i * w i)) * (v i * w i))).
  - apply sum_ext; intros i _. rewrite <- !sum_mult, Rmult_comm, <- sum_mult. apply sum_ext; intros j _. ring.
  - rewrite sum_mult. ring.
Qed.
Lemma form_scaled n k M w : form n (fun i j => k * M i j) w w = k * form n M w w.
Proof. unfold form. rewrite <- sum_mult. apply sum_ext; intros i _. rewrite <- sum_mult. apply sum_ext; intros j _. ring. Qed.
Lemma form_sum A n (l : list A) M w : form n (fun i j => sum l (fun t => M t i j)) w w = sum l (fun t => form n (M t) w w).
Proof.
  induction l as [|t l IH].
  - unfold form. transitivity (sum (seq 0 n) (fun _ => 0)); [|apply sum_zero]. apply sum_ext; intros i _.
    transitivity (sum (seq 0 n) (fun _ => 0)); [|apply sum_zero]. apply sum_ext; intros j _. unfold sum; simpl; ring.
  - rewrite sum_cons, <- IH. unfold form. rewrite <- sum_plus. apply sum_ext; intros i _. rewrite <- sum_plus.
    apply sum_ext; intros j _. rewrite sum_cons. ring.
Qed.
Lemma table_psd P p b n : part_fits P p = true -> side P b = Some n -> psd n (fun i j => IZR (get (table p) b i j)).
Proof.
  intros F S w. apply (Rle_trans _ (form n (fun i j => sum (summands p) (fun t => let '(c, q, v) := t in
    if (c =? b)%nat then IZR q * (real v i * real v j) else 0)) w w)).
  - rewrite (form_sum _ n (summands p) (fun t i j => let '(c, q, v) := t in
      if (c =? b)%nat then IZR q * (real v i * real v j) else 0)).
    unfold part_fits in F. apply andb_true_iff in F. destruct F as [Q _].
    apply sum_pos. intros [[c q] v] I. rewrite forallb_forall in Q. specialize (Q _ I). apply andb_true_iff in Q.
    destruct Q as [Q _]. apply Z.leb_le, IZR_le in Q. destruct (c =? b)%nat.
    + rewrite (square_form n (IZR q) (real v) w). apply Rmult_le_pos; [exact Q|]. apply pow2_ge_0.
    + unfold form. apply sum_pos; intros i _. apply sum_pos; intros j _. lra.
  - right. unfold form. apply sum_ext; intros i _. apply sum_ext; intros j _.
    rewrite (get_table P p b n i j F S). reflexivity.
Qed.
Lemma form_plus n M N w : form n (fun i j => M i j + N i j) w w = form n M w w + form n N w w.
Proof.
  unfold form. rewrite <- sum_plus. apply sum_ext; intros i _. rewrite <- sum_plus. apply sum_ext; intros j _. ring.
Qed.
Lemma zvalue_at_sum T l :
  IZR (zvalue_at T l) = sum l (fun t => let '(b, i, j, z) := t in IZR z * IZR (get T b i j)).
Proof.
  assert (forall s, IZR (fold_left (fun s t => let '(b, i, j, z) := t in (z * get T b i j + s)%Z) l s) =
    sum l (fun t => let '(b, i, j, z) := t in IZR z * IZR (get T b i j)) + IZR s) as G.
  { induction l as [|[[[b i] j] z] l IH]; intros s; cbn [fold_left]; [simpl; ring|].
    rewrite IH, sum_cons, plus_IZR, mult_IZR. ring. }
  unfold zvalue_at. rewrite G. ring.
Qed.
Lemma mixed_at_sound k m T U l : zvalue (at_r k m T U) l = / IZR (Zpos k) * IZR (mixed_at m T U l).
Proof.
  unfold mixed_at. rewrite plus_IZR, mult_IZR, !zvalue_at_sum, <- sum_mult, <- sum_plus, <- sum_mult.
  unfold zvalue. apply sum_ext. intros [[[b i] j] z] _. unfold at_r. ring.
Qed.
Lemma in_combine (es : list positive) (rs : list row) r : length es = length rs -> In r rs -> exists e, In (e, r) (combine es rs).
Proof.
  revert es. induction rs as [|s rs IH]; intros [|e es] L I; try discriminate; [contradiction|].
  destruct I as [->|I]; [exists e; left; reflexivity|]. destruct (IH es ltac:(injection L; auto) I) as [f J].
  exists f. right; exact J.
Qed.
Lemma point_sound P es k m p q : check_feasible P es k m p q = true -> feasible P (at_r k m (table p) (table q)).
Proof.
  unfold check_feasible. cbv zeta. intros C. apply andb_true_iff in C. destruct C as [C R]. apply andb_true_iff in C.
  destruct C as [C L]. apply andb_true_iff in C. destruct C as [F G]. apply Nat.eqb_eq in L.
  pose proof (positive_R k) as K. pose proof (positive_R m) as M. split; [|split].
  - intros b i j. unfold at_r, get. rewrite Nat.max_comm, Nat.min_comm. reflexivity.
  - intros b n E w. assert (side P b = Some n) as S by (unfold side; rewrite E; reflexivity).
    unfold at_r. rewrite form_scaled. apply Rmult_le_pos; [left; apply Rinv_0_lt_compat, K|].
    rewrite form_plus, form_scaled. apply Rplus_le_le_0_compat; [apply Rmult_le_pos; [left; exact M|]|].
    + apply (table_psd P p b n F S).
    + apply (table_psd P q b n G S).
  - intros r I. destruct (in_combine es (rows P) r L I) as [e J]. rewrite forallb_forall in R. specialize (R _ J).
    unfold holds_at in R. apply andb_true_iff in R. destruct R as [FR W].
    apply (row_sound _ e r FR). unfold holds_z, zwithin in *. cbn [fst snd] in *. rewrite mixed_at_sound.
    set (x := mixed_at m (table p) (table q) (wholes e 1 (entries r))) in *.
    assert (forall a b, IZR (Zpos k) * a <= b -> a <= / IZR (Zpos k) * b) as UP.
    { intros a b H. apply (Rmult_le_reg_l (IZR (Zpos k))); [exact K|]. rewrite <- Rmult_assoc, Rinv_r by lra. lra. }
    assert (forall a b, b <= IZR (Zpos k) * a -> / IZR (Zpos k) * b <= a) as DOWN.
    { intros a b H. apply (Rmult_le_reg_l (IZR (Zpos k))); [exact K|]. rewrite <- Rmult_assoc, Rinv_r by lra. lra. }
    apply andb_true_iff in W. destruct W as [A B].
    destruct (lower r) as [lo|], (upper r) as [hi|]; cbn [option_map] in *; split; try exact Logic.I;
    first [apply UP|apply DOWN]; rewrite <- mult_IZR; apply IZR_le, Z.leb_le; assumption.
Qed.
Theorem feasible_sound P es k m p q : check_feasible P es k m p q = true -> exists X, feasible P X.
Proof. intros C. exists (at_r k m (table p) (table q)). apply (point_sound P es k m p q C). Qed.
Theorem attained_sound P es k m p q sign C e v :
  check_feasible P es k m p q && check_attained k m p q sign C e v = true ->
  exists X, feasible P X /\ IZR sign * cost C X <= IZR sign * Q2R v.
Proof.
  intros H. apply andb_true_iff in H. destruct H as [F H]. exists (at_r k m (table p) (table q)).
  split; [apply (point_sound P es k m p q F)|]. unfold check_attained in H. cbv zeta in H.
  apply andb_true_iff in H. destruct H as [E H]. apply Z.leb_le, IZR_le in H. rewrite !mult_IZR in H.
  change (Zpos (k * e)) with (Zpos k * Zpos e)%Z in H. rewrite mult_IZR in H.
  pose proof (positive_R k) as NK. pose proof (positive_R e) as NE. pose proof (positive_R (Qden (v - constant C))) as ND.
  pose proof (wholes_sound (at_r k m (table p) (table q)) e 1 _ E) as W. rewrite mixed_at_sound, Rmult_1_l in W.
  pose proof (difference v (constant C)) as D. rewrite Q2R_minus in D. unfold cost.
  set (x := value (at_r k m (table p) (table q)) (costs C)) in *.
  set (y := IZR (mixed_at m (table p) (table q) (wholes e 1 (costs C)))) in *.
  set (n := IZR (Qnum (v - constant C))) in *. set (d := IZR (QDen (v - constant C))) in *.
  set (a := IZR (Zpos k)) in *. set (b := IZR (Zpos e)) in *.
  assert (y = a * b * x) as Y by (rewrite Rmult_assoc, <- W; field; lra).
  assert (n = (Q2R v - Q2R (constant C)) * d) as N by (rewrite D; field; lra).
  rewrite Y, N in H. clear D N W Y.
  assert (0 < a * b) as AB by (apply Rmult_lt_0_compat; assumption).
  assert (0 < a * b * d) as ABD by (apply Rmult_lt_0_compat; assumption).
  assert (IZR sign * x <= IZR sign * (Q2R v - Q2R (constant C))) as G.
  { apply (Rmult_le_reg_r (a * b * d)); [exact ABD|]. lra. }
  lra.
Qed.
