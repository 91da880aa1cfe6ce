(* A checker of exact evidence about semidefinite problems, and the proof that it is sound.

   A point X gives every block b a symmetric real matrix X b. A block is PSD n, which asks that v'(X b)v >= 0 for all
   vectors v of length n, or Free. A row asks that the sum of q * X b i j over its terms q b i j is within bounds.
   Evidence writes minus the adjoint as a sum of c v v' with c >= 0 (and w z' with X z = 0 known by earlier steps of
   facial reduction), or a point as such a sum; the checker compares coefficients. *)

Require Import List Bool Arith QArith Qreals Reals Lra Psatz.
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

(* --- the checker *)

Definition vec := list Q.
Record step := Step {
  multipliers : list Q;
  squares : list (nat * Q * vec);     (* block, c, v: c v v' *)
  crosses : list (nat * vec * vec) }. (* block, w, z: w z', where X z = 0 *)

Definition side (P : problem) (b : nat) : option nat :=
  match nth_error (blocks P) b with Some (PSD n) => Some n | _ => None end.
Definition outer (n b : nat) (c : Q) (u v : vec) : list entry :=
  flat_map (fun i => map (fun j => (b, i, j, (c * nth i u 0 * nth j v 0)%Q)) (seq 0 n)) (seq 0 n).
Definition square_entries P (t : nat * Q * vec) : list entry :=
  let '(b, c, v) := t in match side P b with Some n => outer n b c v v | None => [] end.
Definition cross_entries P (t : nat * vec * vec) : list entry :=
  let '(b, w, z) := t in match side P b with Some n => outer n b 1 w z | None => [] end.
Definition scaled (y : Q) (l : list entry) : list entry :=
  map (fun e => let '(b, i, j, q) := e in (b, i, j, (y * q)%Q)) l.
Fixpoint adjoint (ys : list Q) (rs : list row) : list entry :=
  match ys, rs with
  | y :: ys, r :: rs => scaled y (entries r) ++ adjoint ys rs
  | _, _ => []
  end.

Definition same (e : entry) (b i j : nat) : bool :=
  let '(c, k, l, _) := e in
  (c =? b)%nat && (((k =? i)%nat && (l =? j)%nat) || ((k =? j)%nat && (l =? i)%nat)).
Definition coefficient (l : list entry) b i j : Q :=
  fold_right (fun e s => if same e b i j then Qred (snd e + s) else s) 0%Q l.
Fixpoint vanishes (fuel : nat) (l : list entry) : bool :=
  match fuel, l with
  | _, [] => true
  | O, _ => false
  | S fuel, (b, i, j, q) :: _ =>
      Qeq_bool (coefficient l b i j) 0 && vanishes fuel (filter (fun e => negb (same e b i j)) l)
  end.

Definition bounds := list (option Q * option Q).
Definition pick (y : Q) (p : option Q * option Q) : option Q :=
  if Qeq_bool y 0 then Some 0%Q else if Qle_bool 0 y then fst p else snd p.
Fixpoint beta (ys : list Q) (bs : bounds) : option Q :=
  match ys, bs with
  | [], [] => Some 0%Q
  | y :: ys, p :: bs =>
      match pick y p, beta ys bs with Some q, Some s => Some (Qred (y * q + s)) | _, _ => None end
  | _, _ => None
  end.
Fixpoint tighten (ys : list Q) (bs : bounds) : bounds :=
  match ys, bs with
  | y :: ys, p :: bs => (if Qeq_bool y 0 then p else (pick y p, pick y p)) :: tighten ys bs
  | _, _ => []
  end.
Definition eq_vec (u v : vec) : bool :=
  (length u =? length v)%nat && forallb (fun p => Qeq_bool (fst p) (snd p)) (combine u v).
Definition known (Z : list (nat * vec)) (t : nat * vec * vec) : bool :=
  let '(b, _, z) := t in existsb (fun k => (fst k =? b)%nat && eq_vec (snd k) z) Z.
Definition nonneg (t : nat * Q * vec) : bool := Qle_bool 0 (snd (fst t)).
Definition balanced P (s : step) : bool :=
  let l := adjoint (multipliers s) (rows P) ++ flat_map (square_entries P) (squares s)
           ++ flat_map (cross_entries P) (crosses s) in vanishes (length l) l.
Definition exposed (s : step) : list (nat * vec) :=
  map (fun t => (fst (fst t), snd t)) (filter (fun t => negb (Qeq_bool (snd (fst t)) 0)) (squares s)).

Fixpoint refutes P (Z : list (nat * vec)) (bs : bounds) (l : list step) : bool :=
  match l with
  | [] => false
  | s :: rest =>
      forallb nonneg (squares s) && forallb (known Z) (crosses s) && balanced P s &&
      match beta (multipliers s) bs with
      | None => false
      | Some v =>
          match rest with
          | [] => negb (Qle_bool v 0)
          | _ => Qeq_bool v 0 && refutes P (exposed s ++ Z) (tighten (multipliers s) bs) rest
          end
      end
  end.
Definition given (P : problem) : bounds := map (fun r => (lower r, upper r)) (rows P).
Definition check_infeasible (P : problem) (l : list step) : bool := refutes P [] (given P) l.

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
  assert (0 <= f a) by auto. assert (0 <= sum l f) by auto. lra.
Qed.
Lemma sum_pos_zero A (l : list A) f :
  (forall a, In a l -> 0 <= f a) -> sum l f <= 0 -> forall a, In a l -> f a = 0.
Proof.
  induction l as [|x l IH]; simpl; intros H Z a; [intros []|intros [E|I]].
  - subst. assert (0 <= f a) by auto. assert (0 <= sum l f) by (apply sum_pos; auto). lra.
  - assert (0 <= f x) by auto. apply IH; auto. lra.
Qed.

(* --- bilinear forms *)

Definition real (v : vec) (i : nat) : R := Q2R (nth i v 0%Q).

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

(* --- entries *)

Lemma value_app X l k : value X (l ++ k) = value X l + value X k.
Proof. apply sum_app. Qed.
Lemma value_scaled X y l : value X (scaled y l) = Q2R y * value X l.
Proof.
  unfold value, scaled. rewrite sum_map, <- sum_mult. apply sum_ext. intros [[[b i] j] q] _.
  rewrite Q2R_mult. ring.
Qed.
Lemma value_outer X n b c u v : value X (outer n b c u v) = Q2R c * form n (X b) (real u) (real v).
Proof.
  unfold value, outer, form. rewrite sum_flat, <- sum_mult. apply sum_ext; intros i _.
  rewrite sum_map, <- sum_mult. apply sum_ext; intros j _. unfold real. rewrite !Q2R_mult. ring.
Qed.
Lemma value_cons X b i j q l : value X ((b, i, j, q) :: l) = Q2R q * X b i j + value X l.
Proof. reflexivity. Qed.
Lemma value_split X l b i j : (forall b i j, X b i j = X b j i) ->
  value X l = Q2R (coefficient l b i j) * X b i j + value X (filter (fun e => negb (same e b i j)) l).
Proof.
  intros S. induction l as [|[[[c k] m] q] l IH].
  - simpl. change (Q2R 0) with (Q2R 0%Q). rewrite RMicromega.Q2R_0. unfold value. simpl. lra.
  - unfold coefficient in *. cbn [fold_right filter]. destruct (same (c, k, m, q) b i j) eqn:E; cbn [negb].
    + assert (X c k m = X b i j) as W.
      { unfold same in E. apply andb_true_iff in E. destruct E as [E1 E2]. apply Nat.eqb_eq in E1. subst.
        apply orb_true_iff in E2. destruct E2 as [E2|E2]; apply andb_true_iff in E2; destruct E2 as [A B];
        apply Nat.eqb_eq in A; apply Nat.eqb_eq in B; subst; auto. }
      rewrite value_cons, IH, W, (Qeq_eqR _ _ (Qred_correct _)), Q2R_plus. cbn [snd]. ring.
    + rewrite !value_cons, IH. ring.
Qed.
Lemma vanishes_sound X : (forall b i j, X b i j = X b j i) ->
  forall fuel l, vanishes fuel l = true -> value X l = 0.
Proof.
  intros S. induction fuel as [|fuel IH]; intros [|[[[b i] j] q] l]; cbn [vanishes]; intros H; try discriminate;
    try reflexivity.
  apply andb_true_iff in H. destruct H as [A B]. apply Qeq_bool_eq in A. apply IH in B.
  rewrite (value_split X _ b i j S), B, (Qeq_eqR _ _ A), RMicromega.Q2R_0. lra.
Qed.

(* --- multipliers *)

Definition holds (X : point) (rs : list row) (bs : bounds) : Prop :=
  Forall2 (fun r p => within (fst p) (snd p) (value X (entries r))) rs bs.

Lemma Qlt_bool_R y : Qle_bool 0 y = true -> 0 <= Q2R y.
Proof. intros H. apply Qle_bool_iff in H. apply Qle_Rle in H. rewrite RMicromega.Q2R_0 in H. exact H. Qed.
Lemma Qneg_R y : Qle_bool 0 y = false -> Q2R y <= 0.
Proof.
  intros H. destruct (Qlt_le_dec y 0) as [L|L].
  - apply Qlt_le_weak in L. apply Qle_Rle in L. rewrite RMicromega.Q2R_0 in L. exact L.
  - apply Qle_bool_iff in L. congruence.
Qed.
Lemma pick_sound y p q x : pick y p = Some q -> within (fst p) (snd p) x -> Q2R y * Q2R q <= Q2R y * x.
Proof.
  unfold pick, within. destruct p as [lo hi]. cbn [fst snd].
  destruct (Qeq_bool y 0) eqn:E.
  - intros _ _. apply Qeq_bool_eq in E. rewrite (Qeq_eqR _ _ E), RMicromega.Q2R_0. lra.
  - destruct (Qle_bool 0 y) eqn:L; intros H [A B]; subst.
    + apply Qlt_bool_R in L. nra.
    + apply Qneg_R in L. nra.
Qed.
Lemma beta_sound X rs bs : holds X rs bs -> forall ys v, beta ys bs = Some v -> Q2R v <= value X (adjoint ys rs).
Proof.
  intros H. induction H as [|r p rs bs W _ IH]; intros [|y ys] v; cbn [beta adjoint]; try discriminate.
  - intros E. injection E as <-. rewrite RMicromega.Q2R_0. unfold value. simpl. lra.
  - destruct (pick y p) as [q|] eqn:K; [|discriminate]. destruct (beta ys bs) as [s|] eqn:T; [|discriminate].
    intros E. assert (v = Qred (y * q + s)) as EV by congruence. subst v. rewrite value_app, value_scaled, (Qeq_eqR _ _ (Qred_correct _)), Q2R_plus, Q2R_mult.
    specialize (IH ys s T). pose proof (pick_sound y p q _ K W). lra.
Qed.
Lemma tighten_sound X rs bs : holds X rs bs -> forall ys v, beta ys bs = Some v ->
  value X (adjoint ys rs) <= Q2R v -> holds X rs (tighten ys bs).
Proof.
  intros H. induction H as [|r p rs bs W R IH]; intros [|y ys] v; cbn [beta adjoint tighten]; try discriminate.
  - intros _ _. constructor.
  - destruct (pick y p) as [q|] eqn:K; [|discriminate]. destruct (beta ys bs) as [s|] eqn:T; [|discriminate].
    intros E. assert (v = Qred (y * q + s)) as EV by congruence. subst v. rewrite value_app, value_scaled, (Qeq_eqR _ _ (Qred_correct _)), Q2R_plus, Q2R_mult.
    intros L. pose proof (pick_sound y p q _ K W) as A. pose proof (beta_sound X rs bs R ys s T) as B.
    constructor; [|apply (IH ys s T); lra].
    destruct (Qeq_bool y 0) eqn:Z; [exact W|]. cbn [fst snd]. unfold within.
    assert (Q2R y <> 0) as NZ.
    { intros C. rewrite <- RMicromega.Q2R_0 in C. apply eqR_Qeq in C. apply Qeq_eq_bool in C. congruence. }
    assert (value X (entries r) = Q2R q) by nra. lra.
Qed.

(* --- soundness of infeasibility *)

Definition zeros P X (Z : list (nat * vec)) : Prop :=
  forall b z n, In (b, z) Z -> side P b = Some n -> forall w, form n (X b) w (real z) = 0.

Lemma eq_vec_real u v : eq_vec u v = true -> forall i, real u i = real v i.
Proof.
  unfold eq_vec. intros H. apply andb_true_iff in H. destruct H as [L H]. apply Nat.eqb_eq in L.
  revert v L H. induction u as [|a u IH]; intros [|b v]; simpl; try discriminate; intros L H i; [reflexivity|].
  apply andb_true_iff in H. destruct H as [A H]. destruct i as [|i]; unfold real; simpl.
  - apply Qeq_eqR, Qeq_bool_eq, A.
  - apply (IH v); [congruence|exact H].
Qed.
Lemma crosses_zero P X Z l : zeros P X Z -> forallb (known Z) l = true -> value X (flat_map (cross_entries P) l) = 0.
Proof.
  intros K. induction l as [|[[b w] z] l IH]; simpl; intros H; [reflexivity|].
  apply andb_true_iff in H. destruct H as [H T]. rewrite value_app, IH by exact T.
  unfold cross_entries. destruct (side P b) as [n|] eqn:E; [|unfold value; simpl; lra].
  apply existsb_exists in H. destruct H as [[c u] [I H]]. cbn [fst snd] in H.
  apply andb_true_iff in H. destruct H as [A B]. apply Nat.eqb_eq in A. subst c.
  rewrite value_outer. rewrite (form_ext _ _ (real w) (real w) (real z) (real u)); auto.
  - rewrite (K b u n I E). lra.
  - intros i. symmetry. apply eq_vec_real, B.
Qed.
Lemma square_sound P X t : feasible P X -> nonneg t = true -> 0 <= value X (square_entries P t).
Proof.
  intros [_ [D _]]. destruct t as [[b c] v]. unfold nonneg, square_entries. cbn [fst snd]. intros N.
  destruct (side P b) as [n|] eqn:E; [|unfold value; simpl; lra]. rewrite value_outer.
  apply Qlt_bool_R in N. unfold side in E. destruct (nth_error (blocks P) b) as [[m|]|] eqn:B; try discriminate.
  injection E as ->. pose proof (D b n B (real v)). nra.
Qed.
Theorem refutes_sound P X : feasible P X -> forall l Z bs,
  zeros P X Z -> holds X (rows P) bs -> refutes P Z bs l = true -> False.
Proof.
  intros F. induction l as [|s rest IH]; intros Z bs K H C; [discriminate|]. cbn [refutes] in C.
  apply andb_true_iff in C. destruct C as [C V]. apply andb_true_iff in C. destruct C as [C BAL].
  apply andb_true_iff in C. destruct C as [NN KN].
  destruct (beta (multipliers s) bs) as [v|] eqn:T; [|discriminate].
  pose proof (beta_sound X _ _ H _ _ T) as LOW.
  destruct F as [S [D R]]. pose proof (conj S (conj D R) : feasible P X) as F.
  unfold balanced in BAL. apply (vanishes_sound X S) in BAL. rewrite !value_app in BAL.
  rewrite (crosses_zero P X Z _ K KN) in BAL.
  assert (forall t, In t (squares s) -> 0 <= value X (square_entries P t)) as POS.
  { intros t I. apply square_sound; [exact F|]. rewrite forallb_forall in NN. auto. }
  unfold value at 2 in BAL. rewrite sum_flat in BAL.
  change (sum (squares s) (fun a => sum (square_entries P a) (fun e => let '(b, i, j, q) := e in Q2R q * X b i j)))
    with (sum (squares s) (fun a => value X (square_entries P a))) in BAL.
  pose proof (sum_pos _ (squares s) _ POS) as SP.
  destruct rest as [|s' rest'].
  - apply negb_true_iff in V.
    assert (0 < Q2R v) as G.
    { destruct (Qlt_le_dec 0 v) as [L|L].
      - apply Qlt_Rlt in L. rewrite RMicromega.Q2R_0 in L. exact L.
      - apply Qle_bool_iff in L. congruence. }
    lra.
  - apply andb_true_iff in V. destruct V as [V0 V]. apply Qeq_bool_eq in V0.
    rewrite (Qeq_eqR _ _ V0), RMicromega.Q2R_0 in LOW.
    assert (sum (squares s) (fun a => value X (square_entries P a)) <= 0) as UP by lra.
    apply (IH (exposed s ++ Z) (tighten (multipliers s) bs)).
    + intros b z n I E w. apply in_app_or in I. destruct I as [I|I]; [|apply (K b z n I E)].
      unfold exposed in I. apply in_map_iff in I. destruct I as [[[b' c] z'] [EQ I]]. cbn [fst snd] in EQ.
      injection EQ as -> ->. apply filter_In in I. destruct I as [I NZ]. cbn [fst snd] in NZ.
      pose proof (sum_pos_zero _ _ _ POS UP _ I) as Q0. unfold square_entries in Q0. rewrite E in Q0.
      rewrite value_outer in Q0. apply form_zero; [intros; apply S| |].
      * apply D. unfold side in E. destruct (nth_error (blocks P) b) as [[m|]|]; try discriminate. congruence.
      * apply negb_true_iff in NZ. apply Rmult_integral in Q0. destruct Q0 as [Q0|Q0]; [exfalso|exact Q0].
        rewrite <- RMicromega.Q2R_0 in Q0. apply eqR_Qeq in Q0. apply Qeq_eq_bool in Q0. congruence.
    + apply (tighten_sound X _ _ H _ _ T). rewrite (Qeq_eqR _ _ V0), RMicromega.Q2R_0. lra.
    + exact V.
Qed.
Theorem infeasible_sound P l : check_infeasible P l = true -> ~ exists X, feasible P X.
Proof.
  intros C [X F]. apply (refutes_sound P X F l [] (given P)); [intros b z n []| |exact C].
  destruct F as [_ [_ R]]. unfold holds, given. induction (rows P) as [|r rs IH]; simpl; constructor.
  - cbn [fst snd]. apply R. left; reflexivity.
  - apply IH. intros r' I. apply R. right; exact I.
Qed.

(* --- points: a sum of squares c v v' on every PSD block, a number on every free one *)

Definition at_q (sq : list (nat * Q * vec)) (fr : list (nat * Q)) (b i j : nat) : Q :=
  (fold_right (fun t s => let '(c, q, v) := t in if (c =? b)%nat then Qred (q * nth i v 0 * nth j v 0 + s) else s)
   (fold_right (fun t s => if (fst t =? b)%nat then Qred (snd t + s) else s) 0 fr) sq)%Q.
Definition value_q sq fr (l : list entry) : Q :=
  fold_right (fun e s => let '(b, i, j, q) := e in Qred (q * at_q sq fr b i j + s)) 0%Q l.
Definition within_q (lo hi : option Q) (x : Q) : bool :=
  match lo with Some q => Qle_bool q x | None => true end && match hi with Some q => Qle_bool x q | None => true end.
Definition check_feasible (P : problem) (sq : list (nat * Q * vec)) (fr : list (nat * Q)) : bool :=
  forallb nonneg sq && forallb (fun t => match side P (fst t) with Some _ => false | None => true end) fr &&
  forallb (fun r => within_q (lower r) (upper r) (value_q sq fr (entries r))) (rows P).

Definition at_r sq fr : point := fun b i j => Q2R (at_q sq fr b i j).
Lemma at_r_sum sq b i j : at_r sq [] b i j =
  sum sq (fun t => let '(c, q, v) := t in if (c =? b)%nat then Q2R q * (real v i * real v j) else 0).
Proof.
  unfold at_r, at_q. cbn [fold_right]. induction sq as [|[[c q] v] sq IH]; [apply RMicromega.Q2R_0|].
  rewrite sum_cons, <- IH. cbn [fold_right]. destruct (c =? b)%nat; [|lra].
  rewrite (Qeq_eqR _ _ (Qred_correct _)), Q2R_plus, !Q2R_mult. unfold real. lra.
Qed.
Lemma free_none P sq fr b n i j :
  forallb (fun t : nat * Q => match side P (fst t) with Some _ => false | None => true end) fr = true ->
  side P b = Some n -> at_r sq fr b i j = at_r sq [] b i j.
Proof.
  intros H E. unfold at_r, at_q. cbn [fold_right].
  replace (fold_right (fun t s => if (fst t =? b)%nat then Qred (snd t + s) else s) 0%Q fr) with 0%Q; [reflexivity|].
  induction fr as [|[c q] fr IH]; [reflexivity|]. simpl in *. apply andb_true_iff in H. destruct H as [A H].
  destruct (c =? b)%nat eqn:C; [|apply IH, H]. apply Nat.eqb_eq in C. subst. rewrite E in A. discriminate.
Qed.
Lemma square_form n (M : nat -> nat -> R) w v c : (forall i j, M i j = c * (v i * v j)) ->
  form n M w w = c * (sum (seq 0 n) (fun i => v i * w i)) ^ 2.
Proof.
  intros H. unfold form.
  replace (c * sum (seq 0 n) (fun i => v i * w i) ^ 2) with
    (sum (seq 0 n) (fun i => (c * sum (seq 0 n) (fun i => v i * w i)) * (v i * w i))).
  - apply sum_ext; intros i _. rewrite <- !sum_mult, Rmult_comm, <- sum_mult. apply sum_ext; intros j _. rewrite H. ring.
  - rewrite sum_mult. ring.
Qed.
Lemma value_q_sound sq fr l : value (at_r sq fr) l = Q2R (value_q sq fr l).
Proof.
  induction l as [|[[[b i] j] q] l IH]; [symmetry; apply RMicromega.Q2R_0|].
  rewrite value_cons, IH. unfold value_q. cbn [fold_right]. rewrite (Qeq_eqR _ _ (Qred_correct _)), Q2R_plus, Q2R_mult. reflexivity.
Qed.
Theorem feasible_sound P sq fr : check_feasible P sq fr = true -> exists X, feasible P X.
Proof.
  intros C. apply andb_true_iff in C. destruct C as [C R]. apply andb_true_iff in C. destruct C as [NN FR].
  exists (at_r sq fr). split; [|split].
  - intros b i j. unfold at_r, at_q. f_equal. clear. induction sq as [|[[c q] v] sq IH]; [reflexivity|].
    cbn [fold_right]. rewrite IH. destruct (c =? b)%nat; [|reflexivity]. apply Qred_complete. ring.
  - intros b n E w. assert (side P b = Some n) as SD by (unfold side; rewrite E; reflexivity).
    assert (form n (at_r sq fr b) w w = sum sq (fun t => let '(c, q, v) := t in
      if (c =? b)%nat then Q2R q * (sum (seq 0 n) (fun i => real v i * w i)) ^ 2 else 0)) as W.
    { clear NN R. transitivity (form n (at_r sq [] b) w w).
      - unfold form. apply sum_ext; intros i _. apply sum_ext; intros j _. rewrite (free_none P sq fr b n i j FR SD). reflexivity.
      - clear FR. induction sq as [|[[c q] v] sq IH].
        + unfold form. transitivity (sum (seq 0 n) (fun _ => 0)); [|apply sum_zero]. apply sum_ext; intros i _.
          transitivity (sum (seq 0 n) (fun _ => 0)); [|apply sum_zero]. apply sum_ext; intros j _.
          rewrite at_r_sum. unfold sum. simpl. ring.
        + rewrite sum_cons, <- IH. clear IH.
          set (M := fun i j => (if (c =? b)%nat then Q2R q else 0) * (real v i * real v j)).
          transitivity (form n M w w + form n (at_r sq [] b) w w).
          * unfold form. rewrite <- sum_plus. apply sum_ext; intros i _. rewrite <- sum_plus. apply sum_ext; intros j _.
            rewrite !at_r_sum, sum_cons. unfold M. destruct (c =? b)%nat; ring.
          * f_equal. rewrite (square_form n M w (real v) (if (c =? b)%nat then Q2R q else 0)); [|reflexivity].
            destruct (c =? b)%nat; ring. }
    rewrite W. apply sum_pos. intros [[c q] v] I. destruct (c =? b)%nat; [|lra].
    rewrite forallb_forall in NN. specialize (NN _ I). apply Qlt_bool_R in NN. cbn [fst snd] in NN.
    apply Rmult_le_pos; [exact NN|]. apply pow2_ge_0.
  - intros r I. rewrite forallb_forall in R. specialize (R r I). rewrite value_q_sound.
    unfold within_q, within in *. apply andb_true_iff in R. destruct R as [A B].
    split; [destruct (lower r)|destruct (upper r)]; auto; apply Qle_Rle, Qle_bool_iff; assumption.
Qed.
